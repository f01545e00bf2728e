package middleware

import "sync"

// Values of headers are slices of one string each, and allocating them one by
// one would double what the middleware allocates. They are therefore cut from
// blocks. A block is never used again: it is garbage when the last response
// that has a part of it is.
type block struct {
	free []string
}

const blockSize = 64

var blocks = sync.Pool{New: func() any { return new(block) }}

// values returns n empty strings that nobody else has. Its capacity is n, so
// that an append does not reach what belongs to another response.
func values(n int) []string {
	b := blocks.Get().(*block)
	if len(b.free) < n {
		b.free = make([]string, blockSize)
	}
	cut := b.free[:n:n]
	b.free = b.free[n:]
	blocks.Put(b)
	return cut
}
