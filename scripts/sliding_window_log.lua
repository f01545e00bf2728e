-- SLIDING WINDOW LOG: at most `rate` units in any span of `window` microseconds.
--
-- Stores  a sorted set with one member for each unit: its score is the instant
--         of the charge, the member a running number. Both are integers of 16
--         digits at most, which keeps up to 128 members in the compact
--         encoding, and the distance of two running numbers counts the units
--         between them, so that nothing has to be counted.
-- ARGV    rate, window
-- Reply   used, newest: units that count, and the newest of them (now if none);
--         blocker: the unit whose end lets the first refused request in, or 0
-- Calls   ZRANGE and ZRANGEBYSCORE to look; ZADD to charge, with either
--         PEXPIRE or ZREMRANGEBYSCORE. A key lives up to three windows, so that
--         its life is renewed only by the first charge of every other window;
--         the charges in between drop what has left the window. One call more
--         to refuse a cost above 100, both of the last two after an idle
--         window, and DEL if a broken clock has left the key.
--@key
--@params rate window
--@reply used newest blocker

--@check
local used$, newest$, blocker$, early$ = 0, now, 0, nil
local last$ = pcall("ZRANGE", key$, -1, -1, "WITHSCORES")
if last$.err then
  failed = last$
  break
end
local serial$, latest$ = tonumber(last$[1]), tonumber(last$[2])
local broken$ = latest$ and not (latest$ <= now + window$)
local reach$ = need
if reach$ > 100 then
  reach$ = 100
end
if latest$ and not broken$ then
  -- time stands still until a clock that fell back has caught up
  local from = (latest$ > now and latest$ or now) - window$ + 1
  if latest$ >= from then
    early$ = pcall("ZRANGEBYSCORE", key$, from, "+inf", "WITHSCORES", "LIMIT", 0, reach$)
    if early$.err then
      failed = early$
      break
    end
    used$ = serial$ - tonumber(early$[1]) + 1
    newest$ = latest$
  end
end
local room$ = rate$ - used$

--@look
local over$ = used$ + units + need - rate$ -- so many units have to leave first
if over$ > used$ then
  blocker$ = newest$ > now and newest$ or now
elseif over$ > reach$ then
  local place = over$ - used$ - 1
  blocker$ = tonumber(call("ZRANGE", key$, place, place, "WITHSCORES")[2])
elseif over$ > 0 then
  blocker$ = tonumber(early$[2 * over$])
end

--@charge
local at$ = newest$ > now and newest$ or now
if broken$ then
  call("DEL", key$)
end
local number$ = (not broken$ and serial$ or 1000000000000000) + 1
for from = 0, units - 1, 1000 do
  local added
  if units == 1 then
    added = pcall("ZADD", key$, at$, number$)
  else
    local members = {}
    for i = from, (from + 1000 < units and from + 1000 or units) - 1 do
      members[#members + 1] = at$
      members[#members + 1] = number$ + i
    end
    added = pcall("ZADD", key$, unpack(members))
  end
  if type(added) == "table" then
    failed = added
    break
  end
end
if failed then
  break
end
local renew$ = used$ == 0 or at$ - at$ % (2 * window$) ~= newest$ - newest$ % (2 * window$)
if renew$ then
  local life = (3 * window$ + at$ - now) / 1000
  local done = pcall("PEXPIRE", key$, life - life % 1 + 2)
  if type(done) == "table" then
    call("DEL", key$) -- it would never be forgotten
    failed = done
    break
  end
end
if latest$ and not broken$ and (used$ == 0 or not renew$) then
  call("ZREMRANGEBYSCORE", key$, "-inf", at$ - window$)
end

--@refund
if used$ > 0 then
  call("ZREMRANGEBYRANK", key$, -(units < used$ and units or used$), -1)
end
