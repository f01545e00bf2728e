-- FIXED WINDOW: at most `rate` units in a window of `period` microseconds that
-- begins with the first of them.
--
-- Stores  in the hash: stamp, when the window began; used, the units in it.
--         The name of used tells the period: after a change the old field is
--         found by its ending, and the key's life is renewed.
-- ARGV    used (the field's name), rate, period
-- Reply   stamp, used: as stored, or now and 0 if no window is open
-- Calls   none beyond the driver's; HGETALL and HDEL once after a change
--@hash
--@fields stamp used
--@params rate period
--@reply stamp used

--@check
local end$ = 0
stamp$, used$ = tonumber(stamp$), tonumber(used$)
--+ earlier
-- A window that begins further ahead than it is long was left by a broken clock.
if not (stamp$ and used$ and used$ > 0 and stamp$ <= now + period$ and now < stamp$ + period$) then
  stamp$, used$ = now, 0
else
  end$ = stamp$ + period$
end
local room$ = rate$ - used$

--@charge
used$ = used$ + units
if stamp$ + period$ - now > ttl then
  ttl = stamp$ + period$ - now
end

--@stored
--+ forget

--@refund
if since >= stamp$ then
  used$ = used$ > units and used$ - units or 0
end
