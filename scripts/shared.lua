-- SHARED: what the files of several algorithms have in common. A line --+ name
-- in a section is replaced by the part of that name.

--@refill
-- The state of a bucket at now: what was used, less what the time since then has
-- brought back. A stamp further ahead than a whole refill was left by a clock that
-- was far ahead: it is not believed.
if not (stamp$ - now < size$ / step$ + 1) then
  stamp$, used$ = now, 0
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

--@earlier
-- A limiter that was made with another period stored it. It counts, but the key's
-- life is that of the other period.
local old$
if stamp$ and not used$ then
  local all = call("HGETALL", key)
  for i = 1, #all, 2 do
    if string.match(all[i], "^1/%d+" .. ending$ .. "$") then
      old$, used$ = all[i], tonumber(all[i + 1])
    end
  end
end

--@forget
if old$ then
  call("HDEL", key, old$)
end

--@text
-- The state as GCRA stores it.
if struct$ then
  text$ = struct$.pack("<ddd", stamp$, used$, unit$)
else
  text$ = string.format("%.0f:%.0f:%.0f", stamp$, used$, unit$)
end
