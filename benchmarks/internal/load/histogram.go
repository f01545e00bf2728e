package load

import (
	"math/bits"
	"time"
)

const (
	fine    = 5 // bits below the leading one that tell buckets apart: 3 % wide
	buckets = (64 - fine) << fine
)

// A Histogram counts durations in buckets that grow with them, so that every
// caller can have one of its own without a lock. The zero value is empty.
type Histogram struct {
	counts [buckets]uint32
	n      uint64
}

// Add counts one duration.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucketOf(uint64(max(d, 0)))]++
	h.n++
}

// Merge adds what another one has counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
}

// Quantile is the duration below which a share q of all lies; 0 if there are
// none.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank, seen := uint64(q*float64(h.n)), uint64(0)
	for i, n := range h.counts {
		if seen += uint64(n); seen > rank {
			return time.Duration(middle(i))
		}
	}
	return 0
}

// bucketOf keeps the leading bits. Small values have a bucket each.
func bucketOf(v uint64) int {
	if v < 1<<fine {
		return int(v)
	}
	shift := bits.Len64(v) - fine - 1
	return min(shift<<fine+int(v>>shift), buckets-1)
}

// middle is the value in the middle of a bucket.
func middle(i int) uint64 {
	if i < 1<<fine {
		return uint64(i)
	}
	shift := i>>fine - 1
	low := uint64(i-shift<<fine) << shift
	return low + 1<<shift/2
}
