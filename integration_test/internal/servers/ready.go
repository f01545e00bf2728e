package servers

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"time"
)

// awaitReady returns when the server answers PING. Waiting for its log line would not do: after a restart the log
// still has the line of the first start. Nor would a connection: Docker accepts before the server does.
func awaitReady(ctx context.Context, addr string) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		err := ping(ctx, addr)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w (%w)", addr, err, ctx.Err())
		}
	}
}

// ping takes an unwillingness to talk to strangers for readiness too: the caller has set a password.
func ping(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(answer, "+PONG") && !strings.HasPrefix(answer, "-NOAUTH") {
		return fmt.Errorf("answered %q", answer)
	}
	return nil
}
