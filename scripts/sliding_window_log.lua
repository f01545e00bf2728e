-- SLIDING WINDOW LOG: at most `rate` units in any span of `window` microseconds.
--
-- Stores  a sorted set with one member for each unit: its score is the instant
--         of the charge, the member a running number. Both are integers of 16
--         digits at most, which keeps up to 128 members in the compact
--         encoding, and the distance of two running numbers counts the units
--         between them, so that nothing has to be counted. The last three digits
--         of a member are the tag of the window: where the newest has another
--         tag the limiter was made again, and the key's life is that of another
--         window. One in 997 pairs of windows shares its tag.
-- ARGV    rate, window, tag
-- Reply   used, newest: units that count, and the newest of them (now if none);
--         blocker: the unit whose end lets the first refused request in, or 0
-- Calls   ZRANGE and ZRANGEBYSCORE to look; ZADD to charge, with either
--         PEXPIRE or ZREMRANGEBYSCORE. A key lives up to three windows, so that
--         its life is renewed only by the first charge of every other window;
--         the charges in between drop what has left the window. One call more
--         to refuse a cost above 100, both of the last two after an idle
--         window or another limiter's charge, and DEL if a broken clock has left the key.
--@key
--@params rate window tag
--@reply used newest blocker

--@check
local used$, newest$, blocker$, early$ = 0, now, 0, nil
local last$ = pcall("ZRANGE", key$, -1, -1, "WITHSCORES")
if last$.err then
  failed = last$
  break
end
local number$, latest$ = last$[1], last$[2]
if number$ then
  number$, latest$ = number$ + 0, latest$ + 0
end
local serial$ = number$ and (number$ - number$ % 1000) / 1000
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
    local first = early$[1] + 0
    used$ = serial$ - (first - first % 1000) / 1000 + 1
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
  blocker$ = early$[2 * over$] + 0
end

--@charge
local at$ = newest$ > now and newest$ or now
if broken$ then
  call("DEL", key$)
end
local next$ = (not broken$ and serial$ or 1000000000000) + 1
for from = 0, units - 1, 1000 do
  local added
  if units == 1 then
    added = pcall("ZADD", key$, at$, next$ * 1000 + tag$)
  else
    local members = {}
    for i = from, (from + 1000 < units and from + 1000 or units) - 1 do
      members[#members + 1] = at$
      members[#members + 1] = (next$ + i) * 1000 + tag$
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
local there$ = latest$ and not broken$
local other$ = there$ and number$ % 1000 ~= tag$
local renew$ = used$ == 0 or other$ or at$ - at$ % (2 * window$) ~= newest$ - newest$ % (2 * window$)
if renew$ then
  local life = (3 * window$ + at$ - now) / 1000
  life = life - life % 1 + 2
  local done = pcall("PEXPIRE", key$, life, there$ and "GT" or "NX")
  if done == 0 and there$ then
    done = pcall("PEXPIRE", key$, life, "NX")
  end
  if type(done) == "table" then
    call("DEL", key$) -- it would never be forgotten
    failed = done
    break
  end
end
if there$ and (used$ == 0 or other$ or not renew$) then
  call("ZREMRANGEBYSCORE", key$, "-inf", at$ - window$)
end

--@refund
if used$ > 0 then
  call("ZREMRANGEBYRANK", key$, -(units < used$ and units or used$), -1)
end
