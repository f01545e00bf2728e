package redislimiter_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

func topInClear(t *testing.T, n int) *rl.TopRefused {
	t.Helper()
	top, err := rl.NewTopRefusedInClear(n)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

func refusal(key string) rl.Event {
	return rl.Event{Key: key, N: 1, Result: rl.Result{Name: "api", Source: rl.SourceRedis}}
}

// The promises of the sketch, on streams of which some are nearly uniform and some
// have few heavy keys.
func TestTopRefusedBounds(t *testing.T) {
	const n, refusals = 20, 10_000
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 0))
		keys := rand.NewZipf(random, 1.01+float64(seed)/10, 1, 5000)
		top, truth := topInClear(t, n), map[string]int64{}
		for range refusals {
			key := fmt.Sprint(keys.Uint64())
			truth[key]++
			top.Observe(t.Context(), refusal(key))
		}
		listed, sum := map[string]bool{}, int64(0)
		for i, r := range top.Top() {
			if r.Count < truth[r.Key] || r.Count-r.Error > truth[r.Key] {
				t.Errorf("seed %d: %+v, refused %d times", seed, r, truth[r.Key])
			}
			if i > 0 && r.Count > top.Top()[i-1].Count {
				t.Errorf("seed %d: out of order at %d", seed, i)
			}
			listed[r.Key], sum = true, sum+r.Count
		}
		if sum != refusals || len(listed) > n {
			t.Errorf("seed %d: %d counted in %d keys", seed, sum, len(listed))
		}
		unlisted := serveTop(t, top).Unlisted
		for key, count := range truth {
			if !listed[key] && (count > unlisted || count > refusals/n) {
				t.Errorf("seed %d: %s was refused %d times and is not listed (unlisted %d)", seed, key, count, unlisted)
			}
		}
	}
}

// Reports of two instances are merged as the documentation says, and the bounds hold
// for the sums.
func TestTopRefusedReportsCanBeMerged(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	keys := rand.NewZipf(random, 1.1, 1, 500)
	truth := map[string]int64{}
	var reports []topReport
	for range 2 {
		top := topInClear(t, 20)
		for range 5000 {
			key := fmt.Sprint(keys.Uint64())
			truth[key]++
			top.Observe(t.Context(), refusal(key))
		}
		reports = append(reports, serveTop(t, top))
	}
	for key, count := range truth {
		most, err := int64(0), int64(0)
		for _, report := range reports {
			i := slices.IndexFunc(report.Refused, func(r rl.Refused) bool { return r.Key == key })
			if i < 0 {
				most, err = most+report.Unlisted, err+report.Unlisted
				continue
			}
			most, err = most+report.Refused[i].Count, err+report.Refused[i].Error
		}
		if count > most || count < most-err {
			t.Errorf("%s: refused %d times, merged %d with an error of %d", key, count, most, err)
		}
	}
}

// An attacker with a thousand times as many keys as there are counters takes no memory, and hides nobody.
func TestTopRefusedUnderAttack(t *testing.T) {
	top, err := rl.NewTopRefused(100, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	const attack, victim = 100_000, 2_000 // a share of 2 %
	for i := range attack {
		top.Observe(t.Context(), refusal("attacker "+strconv.Itoa(i)))
		if i%(attack/victim) == 0 {
			top.Observe(t.Context(), refusal("loud"))
		}
	}
	if after := heap(); after > before+100*1024 {
		t.Errorf("%d bytes for 100 counters", after-before)
	}
	all := top.Top()
	if len(all) != 100 || all[0].Key != hmacOf("secret", "loud") || all[0].Count-all[0].Error > victim || all[0].Count < victim {
		t.Fatalf("%d listed, first %+v", len(all), all[0])
	}
}

func hmacOf(secret, key string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(key))
	return hex.EncodeToString(mac.Sum(nil))[:16]
}

func TestTopRefusedCountsRefusalsOnly(t *testing.T) {
	top := topInClear(t, 10)
	m := newMemory(t, rl.TokenBucket(1, time.Hour, 2))
	for _, l := range []rl.Allower{rl.Observe(m, top.Observe), rl.Observe(rl.Shadow(m), top.Observe)} {
		for _, n := range []int{2, 1, 1, 0, 3, -1} { // refused from the second on
			_, _ = l.AllowN(t.Context(), "k", n)
		}
	}
	_, _ = rl.Observe(rl.Closed, top.Observe).AllowN(t.Context(), "k", 1)
	_, _ = rl.Observe(rl.AllowerFunc(func(context.Context, string, int) (rl.Result, error) {
		return rl.Result{Name: "test"}, errors.New("failed")
	}), top.Observe).AllowN(t.Context(), "k", 1)
	want := rl.Refused{Name: "test", Key: "k", Count: 5} // 2, and 3 in the shadow
	if all := top.Top(); len(all) != 1 || all[0] != want {
		t.Fatalf("%+v", all)
	}
	top.Reset()
	if all := top.Top(); len(all) != 0 {
		t.Fatalf("after Reset: %+v", all)
	}
}

func TestTopRefusedTellsLimitersApart(t *testing.T) {
	top := topInClear(t, 10)
	long := strings.Repeat("x", 1000)
	for _, e := range []rl.Event{refusal("k"), {Key: "k", N: 1, Result: rl.Result{Name: "login"}}, refusal(""), refusal(long)} {
		top.Observe(t.Context(), e)
	}
	all := top.Top()
	if len(all) != 4 || all[3].Name != "login" {
		t.Fatalf("%+v", all)
	}
	for _, r := range all {
		if r.Count != 1 || r.Error != 0 || len(r.Key) > 200 {
			t.Errorf("%+v", r)
		}
	}
}

type topReport struct {
	Refused  []rl.Refused
	Total    int64
	Unlisted int64
	Since    time.Time
}

func serveTop(t *testing.T, top *rl.TopRefused) (report topReport) {
	t.Helper()
	w := httptest.NewRecorder()
	top.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("%d, %v", w.Code, w.Header())
	}
	if err := json.Unmarshal(w.Body.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	return report
}

func TestTopRefusedServesJSON(t *testing.T) {
	top, err := rl.NewTopRefused(2, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	top.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if !strings.HasPrefix(w.Body.String(), `{"refused":[],"total":0,"unlisted":0,"since":"2`) {
		t.Fatalf("empty: %s", w.Body)
	}
	long := strings.Repeat("c", 1000)
	for _, key := range []string{"a", "a", "a", "b", long} {
		top.Observe(t.Context(), refusal(key))
	}
	w = httptest.NewRecorder()
	top.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	want := fmt.Sprintf(`{"refused":[{"name":"api","key":"%s","count":3,"error":0},{"name":"api","key":"%s","count":2,"error":1}],"total":5,"unlisted":2,"since":"`,
		hmacOf("secret", "a"), hmacOf("secret", long))
	if !strings.HasPrefix(w.Body.String(), want) {
		t.Fatalf("got  %s\nwant %s", w.Body, want)
	}
	if r := serveTop(t, top); time.Since(r.Since) > time.Hour || r.Total != 5 {
		t.Errorf("%+v", r)
	}
	w = httptest.NewRecorder()
	top.ServeHTTP(w, httptest.NewRequest("HEAD", "/", nil))
	if w.Code != http.StatusOK {
		t.Errorf("HEAD: %d", w.Code)
	}
	w = httptest.NewRecorder()
	top.ServeHTTP(w, httptest.NewRequest("POST", "/", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" {
		t.Errorf("POST: %d", w.Code)
	}
}

func TestTopRefusedFromManyGoroutines(t *testing.T) {
	top := topInClear(t, 10)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 1000 {
				top.Observe(t.Context(), refusal(fmt.Sprint(i*k%50)))
				if k%100 == 0 {
					top.Top()
				}
			}
		})
	}
	wg.Wait()
	if r := serveTop(t, top); r.Total != 8000 {
		t.Fatalf("total %d", r.Total)
	}
}

func TestTopRefusedAllocatesNothing(t *testing.T) {
	top, err := rl.NewTopRefused(2, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	known, admitted := refusal("k"), refusal("k")
	admitted.Result.Allowed = true
	for name, e := range map[string]rl.Event{"refused": known, "admitted": admitted} {
		top.Observe(ctx, e)
		if n := testing.AllocsPerRun(100, func() { top.Observe(ctx, e) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestInvalidTopRefused(t *testing.T) {
	for name, build := range map[string]func() (*rl.TopRefused, error){
		"n is 0":          func() (*rl.TopRefused, error) { return rl.NewTopRefused(0, []byte("s")) },
		"n is -1":         func() (*rl.TopRefused, error) { return rl.NewTopRefusedInClear(-1) },
		"secret is empty": func() (*rl.TopRefused, error) { return rl.NewTopRefused(1, nil) },
	} {
		if top, err := build(); err == nil || top != nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, %v", name, top, err)
		}
	}
}

func BenchmarkTopRefused(b *testing.B) {
	top, err := rl.NewTopRefused(1000, []byte("secret"))
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	b.Run("known", func(b *testing.B) {
		e := refusal("k")
		b.ReportAllocs()
		for b.Loop() {
			top.Observe(ctx, e)
		}
	})
	b.Run("rotating", func(b *testing.B) {
		events := make([]rl.Event, 100_000)
		for i := range events {
			events[i] = refusal(fmt.Sprint(i))
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			top.Observe(ctx, events[i%len(events)])
		}
	})
}
