-- ALL: charges several limiters, each for an id of its own, together or not at
-- all. Joined from the same sections as the driver.
--
-- KEYS   of each limiter in turn, as the driver has them for one request
-- ARGV   of each limiter in turn: parameters; then each one's cost
-- Reply  for each limiter as the driver replies for one request: granted is 1,
--        or 0 where its own rules refuse, or -2 where they would not have; at
--        the end the time, in microseconds
-- Calls  TIME once, and those of the rules
local call, pcall = redis.call, redis.pcall
local clock = call("TIME")
local now = clock[1] * 1000000 + clock[2]

--@params
local reply, fits, all = {}, {}, 1
local asked, single = 1, false
local cost, need, fit, units, base, key, hash, failed, punished, ttl, spare

repeat -- once; break leaves with failed set
  --@check
  --@reply
  --@charge
until true

return failed or reply
