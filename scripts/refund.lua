-- REFUND: gives back units that were charged and turned out not to be used.
--
-- It never creates a key and never leaves more than a fresh key would have.
-- When a key expires it changes only for GCRA, whose string is written anew, and
-- for a hash that was written with another period or rate, which lives longer
-- then. Joined from the same sections as the driver, with each rule's --@refund
-- in place of its --@charge.
--
-- KEYS   of one request, as the driver has them
-- ARGV   names and parameters, as the driver has them; then how many units,
--        and when they were charged, in microseconds (0 = just now)
-- Reply  the time, in microseconds
-- Calls  TIME, those to look, and one to write each key that exists; for a hash
--        HGETALL, HDEL and PEXPIRE after a change
local call, pcall, tonumber = redis.call, redis.pcall, tonumber
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
