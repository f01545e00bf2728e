package redislimiter

import (
	"github.com/redislimiter/go-redislimiter/internal/model"
)

// sweep drops a few of the shard's keys whose state no longer matters. It runs
// with the shard's lock held, for each new key, so that more is dropped than
// is added as long as there is something to drop.
func (s *shard) sweep(m *Memory) {
	now, seen := m.now(), 0
	for key, e := range s.keys { // starts at a random place
		if seen++; seen > sweepSample {
			return
		}
		if m.standing(e, now).Reset == 0 {
			delete(s.keys, key)
			m.count.Add(-1)
		}
	}
}

// evict drops one key other than keep, which was just added to shard i. It
// runs with the lock of shard i held and never waits for another one, so two
// evictions cannot wait for each other.
func (m *Memory) evict(i int, keep string) {
	if m.shards[i].evict(m, keep) {
		return
	}
	for j := range m.shards {
		if s := &m.shards[j]; j != i && s.mu.TryLock() {
			done := s.evict(m, keep)
			s.mu.Unlock()
			if done {
				return
			}
		}
	}
	// All others are busy or empty: the new key is the one to go.
	delete(m.shards[i].keys, keep)
	m.count.Add(-1)
}

// evict drops the key of a few that has the most left, and of those with
// equally much the one that is forgotten first.
func (s *shard) evict(m *Memory, keep string) bool {
	var victim string
	var best model.Decision
	now, seen := m.now(), 0
	for key, e := range s.keys {
		if key == keep {
			continue
		}
		d := m.standing(e, now)
		if seen == 0 || d.Remaining > best.Remaining || d.Remaining == best.Remaining && d.Reset < best.Reset {
			victim, best = key, d
		}
		if seen++; seen == evictSample {
			break
		}
	}
	if seen == 0 {
		return false
	}
	delete(s.keys, victim)
	m.count.Add(-1)
	return true
}

// standing is how a key stands, without a charge.
func (m *Memory) standing(e *held, now int64) model.Decision {
	taken := model.Take(m.rules, e.states, now, model.Charge{Count: 1})
	return taken.Request(m.rules, 0)
}
