-- SLIDING WINDOW COUNTER: the current window's units, and of the previous
-- window's the share that a sliding window still covers, at most `rate`.
--
-- Stores  in its field of the hash: stamp, when the current window begins; used
--         and prev, the units of that window and of the one before; till.
--         Windows are aligned to the epoch and `window` microseconds long. The
--         share is counted in steps of a microsecond, or of so many that products
--         with the rate are exact.
-- ARGV    rate, window
-- Reply   stamp, used, prev: for the window that now is in
-- Calls   none beyond the driver's
--@hash
--@fields stamp used prev till
--@form 7 5 5 4 if used$ + prev$ < 1099511627776
--@form 7 7 7 5
--@params rate window
--@reply stamp used prev

--@check
--+ unpack
local begin$ = now - now % window$
if not till$ then
  used$, prev$, till$ = 0, 0, 0
elseif stamp$ ~= begin$ then
  stamp$ = stamp$ - stamp$ % window$ -- other windows after a change
  if stamp$ > now + 2 * window$ then -- left by a broken clock
    used$, prev$, till$ = 0, 0, 0
  elseif stamp$ >= begin$ then -- time stands still until the clock is there
    begin$ = stamp$
  elseif stamp$ == begin$ - window$ then
    prev$ = used$ -- not in one assignment, which the embedded Redis of the tests gets wrong
    used$ = 0
  else
    used$, prev$ = 0, 0
  end
end
stamp$ = begin$
local room$ = rate$
if prev$ > 0 then
  local quantum, steps = 1, window$
  if rate$ * window$ > 4503599627370496 then
    quantum = math.ceil(rate$ * window$ / 4503599627370496)
    steps = math.ceil(window$ / quantum)
  end
  local passed = now > begin$ and (now - begin$) / quantum or 0
  local full = prev$ < rate$ and prev$ or rate$
  room$ = rate$ * steps - full * (steps - passed + passed % 1)
  room$ = (room$ - room$ % steps) / steps
end
room$ = room$ - used$

--@charge
used$ = used$ + units
local life$ = stamp$ + 2 * window$ - now
if used$ == 0 then
  life$ = prev$ > 0 and life$ - window$ or 0
end
if life$ > ttl then
  ttl = life$
end

--@refund
if since >= stamp$ then
  used$ = used$ > units and used$ - units or 0
elseif since >= stamp$ - window$ then
  prev$ = prev$ > units and prev$ - units or 0
end
