-- PERMISSIONS: asks the server which commands the caller may not use on a key.
-- Servers that cannot tell say that all is well.
--
-- ARGV   a key, then names of commands
-- Reply  of each name, 1 if it may not be used and 0 otherwise
-- Calls  none
local reply = {}
for i = 2, #ARGV do
  reply[i - 1] = 0
  -- Some servers want to see as many arguments as the command takes: the key
  -- stands for all of them.
  local key = ARGV[1]
  for _, arguments in ipairs({ { key, key, key, key }, { key, key, key }, { key, key }, { key }, {} }) do
    local told, allowed = pcall(redis.acl_check_cmd, ARGV[i], unpack(arguments))
    if told then
      reply[i - 1] = allowed and 0 or 1
      break
    end
  end
end
return reply
