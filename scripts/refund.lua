-- REFUND: gives back units that were charged and turned out not to be used.
--
-- It never creates a key and never leaves more than a fresh key would have. It
-- makes the life of a hash longer where what is left needs that. Joined from the
-- same sections as the driver, with each rule's --@refund before its --@charge.
--
-- KEYS   of one request, as the driver has them
-- ARGV   parameters, as the driver has them; then how many units, and when they
--        were charged, in microseconds (0 = just now)
-- Reply  the time, in microseconds
-- Calls  TIME, those to look, and those to write each key that exists
local call, pcall = redis.call, redis.pcall
local clock = call("TIME")
local now = clock[1] * 1000000 + clock[2]

--@params
local units, since = ARGV[first] + 0, ARGV[first + 1] + 0
if since == 0 then
  since = now
end
local request, need, failed, key, hash = 0, 1, nil, nil, nil

repeat -- once; break leaves with failed set
  --@load
  --@check
  --@refund
  --@save
until true

return failed or { now }
