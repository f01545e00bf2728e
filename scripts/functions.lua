-- FUNCTIONS that more than one place of a script needs; each script gets only
-- those that its rules name.

--@function milliseconds
-- A time to live. The server counts it from the beginning of the current
-- millisecond, hence one more than the microseconds need.
local function milliseconds(life)
  return ceil(life / 1000) + 1
end

--@function expire
-- Gives a key its time to live, in microseconds. A key that cannot get one
-- must not stay: it would never be forgotten.
local function expire(key, life)
  local done = redis.pcall("PEXPIRE", key, milliseconds(life))
  if type(done) == "table" and done.err then
    redis.pcall("DEL", key)
    return done
  end
end

--@function refill
-- The state of a bucket at now: what was used, less what the time since then
-- has brought back. A stamp further ahead than a whole refill was left by a
-- clock that was far ahead: it is not believed.
local function refill(stamp, used, now, size, step)
  if not (stamp <= now + ceil(size / step)) then
    return now, 0
  end
  if not (used <= size) then
    used = size -- the limit was lowered
  end
  if used == 0 then
    return now, 0
  end
  if stamp >= now then
    return stamp, used -- time stands still until the clock is there
  end
  local back = (now - stamp) * step
  if back >= used then
    return now, 0
  end
  return now, used - back
end

--@function rescale
-- Finds what was used under another unit and converts it; returns the old
-- field too, for the charge to delete. Field names end in the stamp's.
local function rescale(key, ending, unit)
  local all = redis.call("HGETALL", key)
  for i = 1, #all, 2 do
    local old = string.match(all[i], "^(%d+)" .. ending .. "$")
    if old then
      return ceil(tonumber(all[i + 1]) / tonumber(old) * unit), all[i]
    end
  end
  return 0
end
