-- TOKEN BUCKET: at most `size` units, `step` of them back every microsecond.
-- Also the LEAKY BUCKET, whose queue drains as a bucket fills.
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
--@uses refill rescale

--@check
local old$
stamp$, used$ = tonumber(stamp$), tonumber(used$)
if stamp$ then
  if not used$ then
    used$, old$ = rescale(key, name_stamp$, unit$)
  end
  stamp$, used$ = refill(stamp$, used$, now, size$, step$)
else
  stamp$, used$ = now, 0
end
local room$ = floor((size$ - used$) / unit$)

--@charge
used$ = used$ + units * unit$
local life$ = ceil(used$ / step$) + stamp$ - now
if life$ > ttl then
  ttl = life$
end

--@refund
used$ = used$ - units * unit$
if used$ < 0 then
  used$ = 0
end

--@stored
if old$ then
  redis.call("HDEL", key, old$)
end
