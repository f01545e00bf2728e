-- BLOCK AFTER: once the other rules have refused `refusals` requests within
-- `within` microseconds of the first of them, everything is refused for `block`
-- microseconds. Refusals during a block neither count nor extend it.
--
-- Stores  in its field of the hash: stamp, when the first refusal that counts
--         was; used, how many there were since; prev, until when everything is
--         blocked; till
-- ARGV    refusals, within, block
-- Reply   stamp, used, prev: 0 where it is over
-- Calls   none beyond the driver's, whose HSET and PEXPIRE a refusal costs too
--@hash
--@fields stamp used prev till
--@form 7 7 7 5
--@params refusals within block
--@reply stamp used prev

--@check
--+ unpack
-- Instants further ahead than the spans themselves were left by a broken clock.
if not till$ or stamp$ > now + within$ or prev$ > now + block$ then
  till$ = 0
end
if not (prev$ and prev$ > now and prev$ <= now + block$) then
  prev$ = 0
end
if not (used$ and used$ > 0 and stamp$ <= now + within$ and now < stamp$ + within$) then
  stamp$, used$ = now, 0
end
local room$ = prev$ > 0 and 0 or math.huge

--@refuse
if cost > 0 and prev$ == 0 then
  local refused = asked - fit
  if single then
    refused = fit == 0 and 1 or 0
  end
  if refused > 0 then
    punished = true
    used$ = used$ + refused
    if used$ >= refusals$ then
      stamp$, used$, prev$ = now, 0, now + block$
    end
  end
end

--@charge
if used$ > 0 and stamp$ + within$ - now > ttl then
  ttl = stamp$ + within$ - now
end
if prev$ - now > ttl then
  ttl = prev$ - now
end
