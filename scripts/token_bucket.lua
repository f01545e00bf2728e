-- TOKEN BUCKET: at most `size` units, `step` of them back every microsecond.
-- Also the LEAKY BUCKET, whose queue drains as a bucket fills.
--
-- Stores  in the hash: stamp, the instant of the last charge; used, what was
--         missing from a full bucket then. A token is `unit` units, so that
--         every number is whole. The field's name tells the unit, and the
--         step unless that is 1: after a change of the rate the old field is
--         found by its ending and counts the same share of a token as before.
--         The key lives up to twice as long as it has to, so that few charges
--         renew its life: until the next multiple of the largest power of 4
--         seconds that is in it.
-- ARGV    used (the field's name), size, unit, step
-- Reply   stamp, used: as they stand at that time, before the charge
-- Calls   none beyond the driver's; HGETALL and HDEL once after a change
--@hash
--@fields stamp used
--@params size unit step
--@reply stamp used

--@check
local end$, span$, old$ = 0, 0, nil
stamp$, used$ = tonumber(stamp$), tonumber(used$)
if stamp$ and not used$ then
  used$ = 0
  local all = call("HGETALL", key)
  for i = 1, #all, 2 do
    local unit = string.match(all[i], "^(%d+)/?%d*" .. ending$ .. "$")
    if unit then
      old$, used$ = all[i], math.ceil(tonumber(all[i + 1]) / tonumber(unit) * unit$)
    end
  end
elseif stamp$ then
  span$ = used$ / step$
  end$ = used$ > 0 and stamp$ + span$ or 0
else
  stamp$, used$ = now, 0
end
--+ refill

--@charge
used$ = used$ + units * unit$
local life$, grid$ = used$ / step$ + (stamp$ - now), 1000000
while grid$ * 4 <= life$ do
  grid$ = grid$ * 4
end
life$ = life$ + grid$ - (now + life$) % grid$
if span$ >= grid$ or grid$ == 1000000 then -- it was given no less the last time
  end$ = end$ + grid$ - end$ % grid$
end
if life$ > ttl then
  ttl = life$
end

--@refund
used$ = used$ - units * unit$
if used$ < 0 then
  used$ = 0
end

--@stored
--+ forget
