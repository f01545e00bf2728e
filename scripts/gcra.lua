-- GCRA, the generic cell rate algorithm in its form as a continuous-state leaky
-- bucket (ITU-T I.371, annex A): it decides as the token bucket does.
--
-- Stores  one string: the last conformance time, the bucket's counter then,
--         and the unit that the counter is in, with colons between. A unit of
--         the rate is `unit` units of the counter, so that every number is
--         whole. A limiter with more rules stores it in the hash instead, as
--         a token bucket.
-- ARGV    size, unit, step
-- Reply   stamp, used: as they stand at that time, before the charge
-- Calls   GET to look, SET with its expiry to charge
--@key
--@params size unit step
--@reply stamp used
--@uses refill milliseconds

--@check
local stamp$, used$ = now, 0
local text$ = redis.pcall("GET", key$)
if text$ then
  if type(text$) == "table" then
    failed = text$
    break
  end
  local last, counter, unit = string.match(text$, "^(%d+):(%d+):(%d+)")
  if not last then
    failed = { err = "WRONGTYPE the key holds a string that is not a limiter's" }
    break
  end
  counter, unit = tonumber(counter), tonumber(unit)
  if unit ~= unit$ then
    counter = ceil(counter / unit * unit$) -- the rate was changed
  end
  stamp$, used$ = refill(tonumber(last), counter, now, size$, step$)
end
local room$ = floor((size$ - used$) / unit$)

--@charge
used$ = used$ + units * unit$
local set$ = redis.pcall("SET", key$, string.format("%.0f:%.0f:%.0f", stamp$, used$, unit$), "PX", milliseconds(ceil(used$ / step$) + stamp$ - now))
if set$.err then
  failed = set$
  break
end

--@refund
used$ = used$ - units * unit$
if text$ then
  if used$ > 0 then
    redis.call("SET", key$, string.format("%.0f:%.0f:%.0f", stamp$, used$, unit$), "PX", milliseconds(ceil(used$ / step$) + stamp$ - now))
  else
    redis.call("DEL", key$)
  end
end
