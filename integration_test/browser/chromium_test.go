package browser

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/remote"
)

// names are what a browser on this machine may be called.
var names = []string{
	"chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
	"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
}

// images have a browser as their entry point: ours, made of Debian's packages, or the public one.
var images = []string{"redislimiter-test/chromium", "chromedp/headless-shell"}

// flags are those of a browser that is not seen.
var flags = []string{
	"--headless", "--remote-debugging-port=0", "--no-first-run", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking",
	"--disable-component-update", "--force-device-scale-factor=1",
}

// startupTimeout is how long a browser may take to start on a slow machine.
const startupTimeout = 2 * time.Minute

// newBrowser starts a browser that ends with the test, and returns a context for chromedp. Where there is none the
// test fails: go test would not show a skip. `make test` leaves it out then and says so, or fails with CI set.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	cmd, stop, err := command(t)
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait()
	})
	address := make(chan string, 1)
	go readAddress(stderr, address)
	select {
	case url, found := <-address:
		if !found {
			t.Fatalf("%v ended without telling its address", cmd)
		}
		ctx, cancel := remote.NewAllocator(t.Context(), url)
		t.Cleanup(cancel)
		return ctx
	case <-time.After(startupTimeout):
		t.Fatalf("%v does not tell its address", cmd)
	}
	return nil
}

// readAddress finds the line by which a browser says where it is driven from, and reads on so that it is not blocked.
func readAddress(stderr io.Reader, address chan<- string) {
	defer close(address)
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if _, url, found := strings.Cut(lines.Text(), "DevTools listening on "); found {
			address <- strings.TrimSpace(url)
			_, _ = io.Copy(io.Discard, stderr)
			return
		}
	}
}

// command is how to start a browser, and how to end it: one of this machine, or one in a container.
func command(t *testing.T) (cmd *exec.Cmd, stop func(), err error) {
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		args := append([]string{"--user-data-dir=" + t.TempDir()}, flags...)
		if os.Getuid() == 0 {
			args = append(args, "--no-sandbox") // Chromium has none for root
		}
		cmd := exec.Command(path, append(args, "about:blank")...)
		return cmd, func() { _ = cmd.Process.Kill() }, nil
	}
	for _, image := range images {
		if exec.Command("docker", "image", "inspect", image).Run() != nil {
			continue
		}
		// In the network of this machine, where the demo listens on the loopback interface.
		name := "redislimiter-test-browser-" + strings.ToLower(rand.Text())
		args := []string{"run", "--rm", "--init", "--name", name, "--label", "redislimiter-test", "--network", "host", image}
		cmd := exec.Command("docker", append(append(args, flags...), "about:blank")...)
		return cmd, func() { _ = exec.Command("docker", "kill", name).Run() }, nil
	}
	return nil, nil, errors.New("a browser is needed: install chromium, or run integration_test/images/build.sh chromium")
}
