-- FIXED WINDOW: at most `rate` units in a window of `period` microseconds that
-- begins with the first of them.
--
-- Stores  in its field of the hash: stamp, when the window began; used, the
--         units in it; till
-- ARGV    rate, period
-- Reply   stamp, used: as stored, or now and 0 if no window is open
-- Calls   none beyond the driver's
--@hash
--@fields stamp used till
--@form 7 7 5
--@params rate period
--@reply stamp used

--@check
--+ unpack
-- A window that begins further ahead than it is long was left by a broken clock.
if not till$ or stamp$ > now + period$ then
  used$, till$ = 0, 0
end
if used$ == 0 or now >= stamp$ + period$ then
  stamp$, used$ = now, 0
end
local room$ = rate$ - used$

--@charge
used$ = used$ + units
if used$ > 0 and stamp$ + period$ - now > ttl then
  ttl = stamp$ + period$ - now
end

--@refund
if since >= stamp$ then
  used$ = used$ > units and used$ - units or 0
end
