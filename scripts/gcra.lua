-- GCRA, the generic cell rate algorithm in its form as a continuous-state leaky
-- bucket (ITU-T I.371, annex A): it decides as the token bucket does.
--
-- Stores  one string: the last conformance time in 16 digits, the bucket's
--         counter then, a colon, and the unit that the counter is in. A unit of
--         the rate is `unit` units of the counter, so that every number is
--         whole. A limiter with more rules stores it in the hash instead, as
--         a token bucket.
-- ARGV    size, unit, step
-- Reply   stamp, used: as they stand at that time, before the charge
-- Calls   GET to look, SET with its expiry to charge
--@key
--@params size unit step
--@reply stamp used

--@check
local stamp$, used$ = now, 0
local text$ = pcall("GET", key$)
if text$ then
  if type(text$) == "table" then
    failed = text$
    break
  end
  local colon = string.find(text$, ":", 18, true)
  if colon then
    stamp$, used$ = tonumber(string.sub(text$, 1, 16)), tonumber(string.sub(text$, 17, colon - 1))
    local unit = tonumber(string.sub(text$, colon + 1))
    if unit ~= unit$ and unit and used$ then
      used$ = math.ceil(used$ / unit * unit$) -- the rate was changed
    end
  end
  if not (colon and stamp$ and used$) then
    failed = { err = "WRONGTYPE the key holds a string that is not a limiter's" }
    break
  end
end
--+ refill

--@charge
used$ = used$ + units * unit$
local life$ = used$ / step$ + (stamp$ - now)
local set$ = pcall("SET", key$, string.format("%016.0f%.0f:%.0f", stamp$, used$, unit$), "PX", life$ / 1000 - life$ / 1000 % 1 + 2)
if set$.err then
  failed = set$
  break
end

--@refund
used$ = used$ - units * unit$
if text$ then
  if used$ > 0 then
    local life = used$ / step$ + (stamp$ - now)
    call("SET", key$, string.format("%016.0f%.0f:%.0f", stamp$, used$, unit$), "PX", life / 1000 - life / 1000 % 1 + 2)
  else
    call("DEL", key$)
  end
end
