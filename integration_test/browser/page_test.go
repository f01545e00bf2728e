package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/demo"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/eventually"
)

// A tab shows the demo's page, and notes what goes wrong in it.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	errors []string
}

// open opens the page in a tab of its own. Errors in its console fail the test when it ends.
func open(t *testing.T, browser context.Context, url string, before ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx}
	messages := chromedp.Console(ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type == chromedp.ConsoleError || m.IsException() {
				p.mu.Lock()
				p.errors = append(p.errors, fmt.Sprintf("%s (%s:%d)", m.String(), m.URL, m.Line))
				p.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, e := range p.errors {
			t.Errorf("console: %s", e)
		}
	})
	p.do(before...)
	p.do(chromedp.Navigate(url))
	p.until(30*time.Second, "the page is connected", `document.getElementById("live").dataset.state === "live"`)
	return p
}

// forgive drops errors that were meant to come.
func (p *tab) forgive(parts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errors = slices.DeleteFunc(p.errors, func(e string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(e, part) })
	})
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// value is what an expression is in the page.
func value[T any](p *tab, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits for an expression to be true.
func (p *tab) until(within time.Duration, what, expression string) {
	p.t.Helper()
	eventually.True(p.t, within, what, func() bool { return value[bool](p, expression) })
}

func (p *tab) click(selector string) {
	p.t.Helper()
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

// fill types into a field, in the place of what is there.
func (p *tab) fill(selector, text string) {
	p.t.Helper()
	p.do(chromedp.Focus(chromedp.CSS(selector)))
	value[bool](p, `(document.activeElement.select(), true)`)
	p.do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

func (p *tab) text(selector string) string {
	p.t.Helper()
	return value[string](p, fmt.Sprintf(`document.querySelector(%q).textContent.trim()`, selector))
}

// size sets the window.
func size(width, height int64) chromedp.Action[chromedp.Void] {
	return chromedp.EmulateViewport(width, height)
}

// prefers sets the system's theme, light or dark.
func prefers(scheme string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		_, err = chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return v, err
	}
}

// shoot writes a picture of the whole page to artifacts/cockpit.
func (p *tab) shoot(name string) {
	p.t.Helper()
	picture, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.t.Fatal(err)
	}
	folder := filepath.Join(demo.Root(p.t), "artifacts", "cockpit")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644); err != nil {
		p.t.Fatal(err)
	}
	if !strings.HasPrefix(string(picture), "\x89PNG") || len(picture) < 20_000 {
		p.t.Errorf("%s: %d bytes are no picture of the page", name, len(picture))
	}
}
