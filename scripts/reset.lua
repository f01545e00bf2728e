-- RESET: forgets everything about one id.
--
-- KEYS   every key of the id
-- Reply  how many there were
-- Calls  DEL
return { redis.call("DEL", unpack(KEYS)) }
