-- DRIVER: decides one or more requests on the rules of one limiter.
--
-- Every rule is checked before any is charged; then all are charged, or none.
-- A refusal writes nothing, except where a block counts refusals. Lines that
-- begin with --@ are replaced when the script is joined: the driver stands once
-- in a script, each rule's sections as often as the limiter has rules of that
-- algorithm, with $ replaced by the rule's number. A rule's --@check sets
-- room$, how many units fit. Its --@charge raises ttl, how long the hash has to
-- live from now, in microseconds, and spare, how much longer it should.
--
-- KEYS   for each request: one hash for all rules of constant size (if there
--        are any), then one key for each rule that keeps its own
-- ARGV   parameters of the rules, then for each request its cost in units (0
--        looks) and its count: up to so many requests of that cost are granted.
--        A negative count is one request that takes as many as fit.
-- Reply  flat integers. For each request: how many were granted, then what
--        each rule stood at before the charge (see its file); at the end the
--        time that all of it was decided by, in microseconds.
--        Granted = -1: not decided because of an error after another request
--        of the call was charged; asked again alone, it gets the error's text.
-- Calls  TIME once, and those of the rules; for the hash HMGET to look, HSET to
--        charge, and PEXPIRE if the hash has to live longer than it will: its
--        end is at the end of a second, so that this is not for every charge. A
--        second PEXPIRE where the first changed nothing: somebody took the
--        expiry away, or charges of other rules have let it live longer
--
-- What a rule stores is one text of its --@fields, which --+ unpack and --+ pack
-- read and write: little endian numbers of as many bytes as a --@form says, by the
-- struct library. Where the server has none, as embedded ones do not, digits with
-- colons between. The last one is always till, the second at which the key was
-- last known to expire, or 0: an earlier one does no harm.
local call, pcall = redis.call, redis.pcall
local clock = call("TIME")
local now = clock[1] * 1000000 + clock[2]

--@params
local reply, size, charged = nil, 0, false

for request = 0, #KEYS / width - 1 do
  local cost = ARGV[first + 2 * request] + 0
  local asked = ARGV[first + 2 * request + 1] + 0
  local single = asked < 0
  local fit, need = single and -asked or asked, cost
  if cost == 0 then
    fit, need = 0, 1
  end
  local base, failed, key, hash = size, nil, nil, nil

  repeat -- once; break leaves with failed set
    --@load
    --@check
    --@fit
    local units = fit * cost
    --@look
    --@reply
    local punished = false
    --@refuse
    if units > 0 or punished then
      local ttl, spare = 1, 0
      --@charge
      --@store
      charged = true
    end
  until true

  size = base + replies
  if failed then
    if not charged then
      return failed
    end
    reply[base + 1] = -1
    for i = base + 2, size do
      reply[i] = 0
    end
  end
end

reply[size + 1] = now
return reply
