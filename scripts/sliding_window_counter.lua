-- SLIDING WINDOW COUNTER: the current window's units, and of the previous
-- window's the share that a sliding window still covers, at most `rate`.
--
-- Stores  in the hash: stamp, when the current window begins; used and prev,
--         the units of that window and of the one before. Windows are aligned
--         to the epoch and `window` microseconds long. The share is counted in
--         `steps` steps of `quantum` microseconds.
--         The name of used tells the window: after a change the old field is
--         found by its ending, and the key's life is renewed.
-- ARGV    used (the field's name), rate, window, steps, quantum
-- Reply   stamp, used, prev: for the window that now is in
-- Calls   none beyond the driver's; HGETALL and HDEL once after a change
--@hash
--@fields stamp used prev
--@params rate window steps quantum
--@reply stamp used prev

--@check
stamp$, used$, prev$ = tonumber(stamp$), tonumber(used$), tonumber(prev$)
--+ earlier
local end$ = 0
local begin$ = now - now % window$
if stamp$ and used$ and prev$ and used$ + prev$ > 0 then
  if used$ > 0 then
    end$ = stamp$ + 2 * window$
  elseif prev$ > 0 then
    end$ = stamp$ + window$
  end
  stamp$ = stamp$ - stamp$ % window$ -- other windows after a change
  if stamp$ > now + 2 * window$ then -- left by a broken clock
    used$, prev$ = 0, 0
  elseif stamp$ >= begin$ then -- time stands still until the clock is there
    begin$ = stamp$
  elseif stamp$ == begin$ - window$ then
    prev$ = used$ -- not in one assignment, which the embedded Redis of the tests gets wrong
    used$ = 0
  else
    used$, prev$ = 0, 0
  end
else
  used$, prev$ = 0, 0
end
stamp$ = begin$
local passed$ = now > begin$ and (now - begin$) / quantum$ or 0
local full$ = prev$ < rate$ and prev$ or rate$
local room$ = rate$ * steps$ - full$ * (steps$ - passed$ + passed$ % 1)
room$ = (room$ - room$ % steps$) / steps$ - used$

--@charge
used$ = used$ + units
if stamp$ + 2 * window$ - now > ttl then
  ttl = stamp$ + 2 * window$ - now
end

--@stored
--+ forget

--@refund
if since >= stamp$ then
  used$ = used$ > units and used$ - units or 0
elseif since >= stamp$ - window$ then
  prev$ = prev$ > units and prev$ - units or 0
end
