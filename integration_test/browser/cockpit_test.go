// Package browser holds the demo's page to what it promises, in a real browser.
package browser

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/demo"
)

// soon is how long a page may take to show what it was told, on a machine that runs other things too.
const soon = 10 * time.Second

// TestCockpit goes through the page as somebody does who sees it for the first time. Its parts build on each other.
func TestCockpit(t *testing.T) {
	browser := newBrowser(t)
	d := demo.Start(t)
	p := open(t, browser, d.URL, size(1360, 900), prefers("light"))

	p.draws()
	p.moves()
	p.changesLimit()
	p.rejects()
	p.changesLoad()
	for policy, kind := range map[string]string{"open": "open", "closed": "closed", "local": "memory"} {
		p.cutsRedis(policy, kind)
	}
	p.compares()
	p.keyboard()
	p.themes()
	p.narrow()

	last := regexp.MustCompile(`\nadmitted [1-9]\d* of at most [1-9]\d*\n$`)
	if output := d.Stop(); !last.MatchString(output) {
		t.Errorf("the last line is not the sum:\n%s", output)
	}
	// The demo has ended: what remains is a page without one.
	p.until(soon, "the page tells that it is not connected", `document.getElementById("live").dataset.state === "lost"`)
	p.forgive("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING")
}

func (p *tab) draws() {
	p.t.Helper()
	p.until(soon, "three instances", `document.querySelectorAll("#instances li svg path").length >= 3`)
	p.until(soon, "four clients", `document.querySelectorAll("#clients tr").length >= 4`)
	p.until(soon, "the chart", `document.querySelectorAll("#chart path.area").length >= 2 && document.querySelector("#chart path.limit") !== null`)
	if got := p.text("#limit-text"); got != "token bucket of 20, 10 per 1s" {
		p.t.Errorf("limit %q", got)
	}
	if got := value[int](p, `[...document.images].filter((i) => !i.complete || !i.naturalWidth).length`); got != 0 {
		p.t.Errorf("%d images are missing", got)
	}
}

// moves wants the counters to go on, and every instance to take part.
func (p *tab) moves() {
	p.t.Helper()
	const bound = `Number(document.getElementById("bound").textContent.replaceAll(",", ""))`
	first := value[float64](p, bound)
	p.until(soon, "more is admitted", fmt.Sprintf("%s > %v", bound, first))
	p.until(soon, "every instance admits", `[...document.querySelectorAll("#instances .numbers span:first-child b")].every((b) => Number(b.textContent) > 0)`)
	p.until(soon, "the limit holds", `document.getElementById("bound-most").className === "held"`)
	p.until(soon, "what takes part is told", `Number(document.getElementById("p99").textContent) > 0`)
}

func (p *tab) changesLimit() {
	p.t.Helper()
	value[bool](p, `(() => { const s = document.querySelector("#limit select"); s.value = "log"; return s.dispatchEvent(new Event("change", { bubbles: true })); })()`)
	p.until(soon, "another algorithm", `document.getElementById("limit-text").textContent === "sliding window log, 10 per 1s"`)
	p.until(soon, "no burst", `document.querySelector("#limit [name=burst]").disabled`)
	p.fill(`#limit [name=rate]`, "20")
	p.fill(`#limit [name=per]`, "2s")
	p.click(`#limit button[type=submit]`)
	p.until(soon, "another rate", `document.getElementById("limit-text").textContent === "sliding window log, 20 per 2s"`)
}

// rejects gives what cannot be; the page says so, and the limit stays.
func (p *tab) rejects() {
	p.t.Helper()
	p.fill(`#limit [name=rate]`, "0")
	p.click(`#limit button[type=submit]`)
	p.until(soon, "the error", `document.querySelector("#limit .error").textContent.includes("rate: 0, must be at least 1")`)
	p.forgive("status of 400") // the browser's own words about the answer
	if got := p.text("#limit-text"); got != "sliding window log, 20 per 2s" {
		p.t.Errorf("limit %q after an error", got)
	}
	p.fill(`#limit [name=rate]`, "20")
	p.click(`#limit button[type=submit]`)
	p.until(soon, "no error", `document.querySelector("#limit .error").textContent === ""`)
}

func (p *tab) changesLoad() {
	p.t.Helper()
	p.fill(`#load [name=clients]`, "5")
	p.fill(`#load [name=rate]`, "10")
	p.click(`#load button[type=submit]`)
	p.until(soon, "five clients", `[1, 2, 3, 4, 5].every((n) => document.querySelector("#clients tr:nth-child(" + n + ") b")?.textContent === "client-" + n)`)
	p.until(soon, "the limit of five clients", `document.getElementById("against").textContent.startsWith("limit 50/s")`)
	p.click(`#blast`)
	p.until(soon, "a sixth client", `document.querySelector("#clients tr:nth-child(6) b")?.textContent === "blast"`)
}

// cutsRedis wants the policy to decide for every client within two seconds, and Redis again within two after.
func (p *tab) cutsRedis(policy, kind string) {
	p.t.Helper()
	p.click(fmt.Sprintf(`#policy label:has([value=%s])`, policy))
	p.until(soon, "the policy "+policy, fmt.Sprintf(`document.querySelector("#policy [value=%s]").checked && document.getElementById("policy-hint").textContent !== ""`, policy))
	decidedBy := func(kind string) string {
		return fmt.Sprintf(`[1, 2, 3, 4, 5].every((n) => document.querySelector("#clients tr:nth-child(" + n + ") .badge").dataset.kind === %q)`, kind)
	}
	p.until(soon, "Redis decides", decidedBy("redis"))
	p.click("#redis")
	p.until(2*time.Second, policy+" decides", decidedBy(kind))
	p.until(soon, "nothing is decided by Redis", fmt.Sprintf(`[...document.querySelectorAll("#sources .badge")].map((b) => b.dataset.kind).join() === %q`, kind))
	p.until(soon, "the chart tells", `document.querySelector("#chart .cut") !== null`)
	p.click("#redis")
	p.until(2*time.Second, "Redis decides again", decidedBy("redis"))
}

// compares runs the scenario in which a fixed window shows its flaw.
func (p *tab) compares() {
	p.t.Helper()
	p.click(`[data-scenario=edge]`)
	p.until(soon, "six lanes", `document.querySelectorAll("#lanes li").length === 6 && document.getElementById("lanes").dataset.running === "true"`)
	p.until(20*time.Second, "it ends", `document.getElementById("lanes").dataset.running === "false" && !document.querySelector("[data-scenario]").disabled`)
	most := func(lane string) int {
		return value[int](p, fmt.Sprintf(`Number(document.querySelector("#lanes [data-name=%s] .score b").textContent)`, lane))
	}
	if got := most("window"); got < 15 || got > 19 {
		p.t.Errorf("the fixed window admits %d within a period, want nearly twice its 10", got)
	}
	if got := most("log"); got < 8 || got > 10 {
		p.t.Errorf("the sliding window log admits %d within a period, want at most its 10", got)
	}
}

// keyboard reaches every control by the Tab key and works the switch by Space.
func (p *tab) keyboard() {
	p.t.Helper()
	const describe = `((e) => e.type === "radio" ? "radio " + e.name : e.id || e.dataset.scenario || (e.form ? e.form.id + " " + (e.name || e.type) : e.tagName + " " + e.textContent))`
	controls := value[[]string](p, `[...new Set([...document.querySelectorAll("a[href], button, input, select")].filter((e) => !e.disabled && e.checkVisibility()).map(`+describe+`))]`)
	if len(controls) < 15 {
		p.t.Fatalf("only these controls: %q", controls)
	}
	value[bool](p, `(document.activeElement.blur(), window.scrollTo(0, 0), document.body.tabIndex = -1, document.body.focus(), document.body.removeAttribute("tabindex"), true)`)
	var reached []string
	for range 2 * len(controls) {
		p.do(chromedp.KeyEvent("\t"))
		reached = append(reached, value[string](p, describe+`(document.activeElement)`))
		if value[bool](p, `document.activeElement !== document.body && getComputedStyle(document.activeElement).outlineStyle === "none" && document.activeElement.type !== "radio"`) {
			p.t.Errorf("%s has the focus, and does not show it", reached[len(reached)-1])
		}
	}
	for _, c := range controls {
		if !slices.Contains(reached, c) {
			p.t.Errorf("%q is not reached by the keyboard", c)
		}
	}
	p.do(chromedp.Focus(chromedp.CSS("#redis")), chromedp.KeyEvent(" "))
	p.until(soon, "Space cuts Redis off", `document.getElementById("redis").getAttribute("aria-checked") === "false"`)
	p.do(chromedp.KeyEvent(" "))
	p.until(soon, "Space brings it back", `document.getElementById("redis").getAttribute("aria-checked") === "true"`)
}

// themes follows the system, and then the button, which is remembered.
func (p *tab) themes() {
	p.t.Helper()
	dark := `(getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).every((c) => Number(c) < 60))`
	p.until(soon, "light", "!"+dark)
	p.shoot("light")
	p.do(prefers("dark"))
	p.until(soon, "dark as the system", dark)
	p.shoot("dark")
	p.click("#theme")
	p.until(soon, "light by the button", "!"+dark)
	p.do(chromedp.Reload())
	p.until(soon, "light after a reload", "document.readyState === 'complete' && !"+dark)
	p.click("#theme")
	p.until(soon, "dark by the button", dark)
	p.do(prefers("light"))
	p.until(soon, "dark whatever the system says", dark)
	p.click("#theme")
}

// narrow wants nothing to stand out at the side of a small phone.
func (p *tab) narrow() {
	p.t.Helper()
	p.do(size(375, 812))
	p.until(soon, "the chart is drawn anew", `document.getElementById("chart").getBoundingClientRect().width < 375 && document.querySelector("#chart text") !== null`)
	if got := value[int](p, `document.documentElement.scrollWidth`); got > 375 {
		p.t.Errorf("the page is %d wide", got)
	}
	out := value[[]string](p, `[...document.querySelectorAll("main *, header *, footer *")].filter((e) => !e.closest("svg, thead") && e.checkVisibility() && e.getBoundingClientRect().right > 375.5).map((e) => e.tagName + "." + e.className)`)
	if len(out) > 0 {
		p.t.Errorf("these stand out: %s", strings.Join(out, ", "))
	}
	p.shoot("narrow")
}
