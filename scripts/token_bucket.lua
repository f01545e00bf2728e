-- TOKEN BUCKET: at most `size` units, `step` of them back every microsecond.
-- Also the LEAKY BUCKET, whose queue drains as a bucket fills.
--
-- Stores  in its field of the hash: stamp, the instant of the last charge; used,
--         what was missing from a full bucket then; coin, the unit that this was
--         counted in; till. A token is `unit` units, so that every number is
--         whole. After a change of the rate what is missing counts as the same
--         share of tokens as before.
--         The key lives up to twice as long as it has to, so that few charges
--         renew its life.
-- ARGV    size, unit, step
-- Reply   stamp, used: as they stand at that time, before the charge
-- Calls   none beyond the driver's
--@hash
--@fields stamp used coin till
--@form 7 5 5 4 if size$ < 1099511627776
--@form 7 7 7 5
--@params size unit step
--@reply stamp used

--@check
--+ unpack
if not till$ then
  stamp$, used$, coin$, till$ = now, 0, unit$, 0
end
--+ refill

--@charge
used$, coin$ = used$ + units * unit$, unit$
local life$ = used$ / step$ + (stamp$ - now)
if life$ > ttl then
  ttl = life$
end
if life$ > spare then
  spare = life$
end

--@refund
used$ = used$ - units * unit$
if used$ < 0 then
  used$ = 0
end
