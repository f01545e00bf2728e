-- TOKEN BUCKET: at most `size` units, `step` of them back every microsecond.
--
-- Stores  in the hash: stamp, the instant of the last charge; used, what was
--         missing from a full bucket then. A token is `unit` units, so that
--         every number is whole. The field's name tells the unit: after a
--         change of the rate the old field is found by its ending and counts
--         the same share of a token as before.
-- ARGV    stamp and used (names), size, unit, step
-- Reply   stamp, used: as they stand at that time, before the charge
-- Calls   none beyond the driver's; HGETALL and HDEL once after a change
--@hash
--@fields stamp used
--@params size unit step
--@reply stamp used
--@uses rescale

--@check
local old$
local full$ = ceil(size$ / step$)
stamp$ = tonumber(stamp$)
if stamp$ and stamp$ <= now + full$ then
  used$ = tonumber(used$)
  if not used$ then
    used$, old$ = rescale(key, name_stamp$, unit$)
  end
  if not (used$ <= size$) then
    used$ = size$ -- the limit was lowered
  end
  if stamp$ < now then
    local back = (now - stamp$) * step$
    if back < used$ then
      used$ = used$ - back
    else
      used$ = 0
    end
    stamp$ = now
  end
else -- never seen, or left by a clock that was far ahead
  stamp$, used$ = now, 0
end
if cost > 0 then
  local room = floor((size$ - used$) / (cost * unit$))
  if room < fit then
    fit = room
  end
end

--@charge
used$ = used$ + units * unit$
local life$ = ceil(used$ / step$) + stamp$ - now
if life$ > ttl then
  ttl = life$
end

--@stored
if old$ then
  redis.call("HDEL", key, old$)
end
