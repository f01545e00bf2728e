-- SHARED: what the files of several algorithms have in common. A line --+ name
-- in a section is replaced by the part of that name.

--@refill
-- The state of a bucket at now: what was used, less what the time since then has
-- brought back. A stamp further ahead than a whole refill was left by a clock that
-- was far ahead: it is not believed.
if coin$ ~= unit$ then -- the rate was changed
  used$ = math.ceil(used$ / coin$ * unit$)
end
if not (stamp$ - now < size$ / step$ + 1) then
  stamp$, used$, till$ = now, 0, 0
end
if not (used$ <= size$) then
  used$ = size$ -- the limit was lowered
end
if used$ == 0 then
  stamp$ = now
elseif stamp$ < now then -- otherwise time stands still until the clock is there
  used$ = used$ - (now - stamp$) * step$
  if used$ < 0 then
    used$ = 0
  end
  stamp$ = now
end
local room$ = (size$ - used$) / unit$

--@set
-- Writes a string; its life is renewed if it has to be longer than it will be, and
-- never made shorter: somebody else may have given it.
local life$ = used$ / step$ + (stamp$ - now)
local set$
if now + life$ > till$ * 1000000 then
  till$ = now + 2 * life$ + 999999
  till$ = (till$ - till$ % 1000000) / 1000000
  --+ pack
  set$ = pcall("SET", key$, text$, "PX", till$ * 1000 - (now - now % 1000) / 1000 + 1)
else
  --+ pack
  set$ = pcall("SET", key$, text$, "KEEPTTL")
end
