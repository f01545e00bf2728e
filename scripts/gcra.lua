-- GCRA, the generic cell rate algorithm in its form as a continuous-state leaky
-- bucket (ITU-T I.371, annex A): it decides as the token bucket does.
--
-- Stores  one string of numbers: the last conformance time, the bucket's counter
--         then, the unit that the counter is in, and till. A unit of the rate is
--         `unit` units of the counter, so that every number is whole. A limiter
--         with more rules stores it in the hash instead, as a token bucket.
-- ARGV    size, unit, step
-- Reply   stamp, used: as they stand at that time, before the charge
-- Calls   GET to look, SET with its expiry to charge
--@key
--@fields stamp used coin till
--@form 7 5 5 4 if size$ < 1099511627776
--@form 7 7 7 5
--@params size unit step
--@reply stamp used

--@check
local text$ = pcall("GET", key$)
if type(text$) == "table" then
  failed = text$
  break
end
--+ unpack
if text$ and not till$ then
  failed = { err = "WRONGTYPE the key holds a string that is not a limiter's" }
  break
elseif not till$ then
  stamp$, used$, coin$, till$ = now, 0, unit$, 0
end
--+ refill

--@charge
used$, coin$ = used$ + units * unit$, unit$
--+ set
if set$.err then
  failed = set$
  break
end

--@refund
used$, coin$ = used$ - units * unit$, unit$
if text$ then
  if used$ > 0 then
    --+ set
  else
    call("DEL", key$)
  end
end
