-- GCRA, the generic cell rate algorithm in its form as a continuous-state leaky
-- bucket (ITU-T I.371, annex A): it decides as the token bucket does.
--
-- Stores  one string of three numbers: the last conformance time, the bucket's
--         counter then, and the unit that the counter is in. A unit of the rate
--         is `unit` units of the counter, so that every number is whole. They
--         are packed as doubles, little endian: digits would take a fifth of
--         the script's time. Where the server has no struct library, as embedded
--         ones do not, they are digits with colons between. A limiter with more
--         rules stores it in the hash instead, as a token bucket.
-- ARGV    size, unit, step
-- Reply   stamp, used: as they stand at that time, before the charge
-- Calls   GET to look, SET with its expiry to charge
--@key
--@params size unit step
--@reply stamp used

--@check
local struct$ = rawget(_G, "struct")
local stamp$, used$ = now, 0
local text$ = pcall("GET", key$)
if text$ then
  if type(text$) == "table" then
    failed = text$
    break
  end
  local unit
  if not struct$ then
    stamp$, used$, unit = string.match(text$, "^(%d+):(%d+):(%d+)$")
    stamp$, used$, unit = tonumber(stamp$), tonumber(used$), tonumber(unit)
  elseif #text$ == 24 then
    stamp$, used$, unit = struct$.unpack("<ddd", text$)
  end
  if not unit then
    failed = { err = "WRONGTYPE the key holds a string that is not a limiter's" }
    break
  end
  if unit ~= unit$ then
    used$ = math.ceil(used$ / unit * unit$) -- the rate was changed
  end
end
--+ refill

--@charge
used$ = used$ + units * unit$
local life$ = used$ / step$ + (stamp$ - now)
--+ text
local set$ = pcall("SET", key$, text$, "PX", life$ / 1000 - life$ / 1000 % 1 + 2)
if set$.err then
  failed = set$
  break
end

--@refund
used$ = used$ - units * unit$
if text$ then
  if used$ > 0 then
    local life = used$ / step$ + (stamp$ - now)
    --+ text
    call("SET", key$, text$, "PX", life / 1000 - life / 1000 % 1 + 2)
  else
    call("DEL", key$)
  end
end
