-- TOKEN BUCKET: at most `size` units, `step` of them back every microsecond.
-- Also the LEAKY BUCKET, whose queue drains as a bucket fills.
--
-- Stores  in the hash: stamp, the instant of the last charge; used, what was
--         missing from a full bucket then. A token is `unit` units, so that
--         every number is whole. The field's name tells the unit: after a
--         change of the rate the old field is found by its ending and counts
--         the same share of a token as before.
-- ARGV    used (the field's name), size, unit, step
-- Reply   stamp, used: as they stand at that time, before the charge
-- Calls   none beyond the driver's; HGETALL and HDEL once after a change
--@hash
--@fields stamp used
--@params size unit step
--@reply stamp used

--@check
local end$, old$ = 0, nil
stamp$, used$ = tonumber(stamp$), tonumber(used$)
if stamp$ and not used$ then
  used$ = 0
  local all = call("HGETALL", key)
  for i = 1, #all, 2 do
    local unit = string.match(all[i], "^(%d+)" .. ending$ .. "$")
    if unit then
      old$, used$ = all[i], math.ceil(tonumber(all[i + 1]) / tonumber(unit) * unit$)
    end
  end
elseif stamp$ then
  end$ = used$ > 0 and stamp$ + used$ / step$ or 0
else
  stamp$, used$ = now, 0
end
--+ refill

--@charge
used$ = used$ + units * unit$
local life$ = used$ / step$ + (stamp$ - now)
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
  call("HDEL", key, old$)
end
