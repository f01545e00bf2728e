package middleware

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
)

// Proxies is whom to believe about a client's address. The zero value, nil,
// believes nobody: the client is who opened the connection. Make another with
// [ParseProxies] or, in need, [UnverifiedHops].
//
// # Field manual
//
// Behind a proxy every connection comes from the proxy, which writes the
// client's address into a header. Everybody can send that header, so it is
// worth something only if a proxy of yours wrote it. Find out three things:
//
//  1. The addresses your proxies connect from, as this server sees them.
//     Trust these and no others: not the whole VPC if clients live there too.
//  2. The header they write. A list to which each appends (X-Forwarded-For) is the
//     default. For one that holds a single address and replaces what the
//     client sent (X-Real-IP, CF-Connecting-IP), use [Proxies.Header]; for RFC
//     7239, [Proxies.Forwarded].
//  3. Every hop. A CDN before a load balancer is two: trust the ranges of
//     both, or every client of the CDN is one client.
//
// What to trust, by what is in front:
//
//	nothing                     | nil
//	nginx, same host            | ParseProxies("127.0.0.1", "::1")
//	nginx, unix socket          | ParseProxies("unix")
//	AWS ALB                     | ParseProxies(the ALB's subnets...)
//	Cloudflare                  | ParseProxies(cloudflare.com/ips ...), then .Header("CF-Connecting-IP")
//	Cloudflare, then ALB        | append(cloudflare, alb...), each made as above
//	platform with unknown hosts | UnverifiedHops(1), if nobody can go around it
//
// Before going live, ask from an address you know, through the proxy, once
// plainly and once with a forged header, and log [Proxies.ClientIP]:
//
//	curl https://api.example.com/
//	curl -H 'X-Forwarded-For: 6.6.6.6' https://api.example.com/
//
// Both must show your address. A proxy's address means that too few are
// trusted: all clients share one limit. 6.6.6.6 means that the proxy passes on
// what it should replace, or that too many are trusted: everybody can be
// anybody. Then ask this server without the proxy; the forged header must have
// no effect.
type Proxies []proxy

// A proxy is one range of trusted addresses, and how they tell whom they speak for.
type proxy struct {
	prefix netip.Prefix
	unix   bool   // peers on a unix socket, instead of prefix
	hops   int    // above 0: not a range, but how many entries to count for any peer
	how    source // where the claim is
	header string // of bySingle
}

type source uint8

const (
	byForwardedFor source = iota // X-Forwarded-For
	byForwarded                  // RFC 7239
	bySingle                     // a header with one address
)

// The widest ranges that can be trusted. Wider ones are a typing error or
// trust the internet; 10.0.0.0/8 and fc00::/7 are what private networks need.
const (
	widest4 = 8
	widest6 = 7
)

// ParseProxies makes Proxies from address ranges such as "10.0.0.0/8", from
// single addresses, and from "unix" for peers on a unix socket. They are
// expected to append to X-Forwarded-For. Without arguments it trusts nobody.
//
// It returns an error that names the argument for what it cannot parse, for
// bits set behind the prefix (10.0.0.1/8: a host or a network?), and for ranges
// wider than /8 (IPv6: /7), such as 0.0.0.0/0, which would believe everybody.
func ParseProxies(cidrs ...string) (Proxies, error) {
	var p Proxies
	for _, cidr := range cidrs {
		if cidr == "unix" {
			p = append(p, proxy{unix: true})
			continue
		}
		prefix, err := parsePrefix(cidr)
		if err != nil {
			return nil, fmt.Errorf("middleware: ParseProxies: %q: %w", cidr, err)
		}
		p = append(p, proxy{prefix: prefix})
	}
	return slices.Clip(p), nil
}

func parsePrefix(cidr string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(cidr)
	addr, notAddr := netip.ParseAddr(cidr)
	if notAddr == nil {
		prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	widest := widest6
	if prefix.Addr().Is4() {
		widest = widest4
	}
	switch {
	case err != nil:
		return netip.Prefix{}, errors.New(`not an address range such as "10.0.0.0/8", nor an address, nor "unix"`)
	case prefix.Addr().Is4In6():
		return netip.Prefix{}, errors.New("an IPv4 address in IPv6 form: write it as IPv4")
	case addr.Zone() != "":
		return netip.Prefix{}, errors.New("zones are not compared: leave it out")
	case prefix.Bits() < widest:
		return netip.Prefix{}, fmt.Errorf("trusts too much: must be /%d or narrower", widest)
	case prefix != prefix.Masked():
		return netip.Prefix{}, fmt.Errorf("bits are set behind the prefix: is it %v?", prefix.Masked())
	}
	return prefix, nil
}

// UnverifiedHops believes the entry of X-Forwarded-For that the outermost of
// hops proxies has appended, counted from the right: 1 for a single load
// balancer, 2 for a CDN in front of one. It is for platforms whose proxies
// have no addresses one could list.
//
// Nothing verifies that the request came through them. Who can reach this
// server directly can be anybody, so close every other way to it. A count too
// low makes a proxy the client, and one too high believes what clients write. A
// request with fewer entries is an [ErrBadKey]. UnverifiedHops panics if hops
// is below 1.
func UnverifiedHops(hops int) Proxies {
	if hops < 1 {
		panic(fmt.Sprintf("middleware: UnverifiedHops: hops is %d, must be at least 1", hops))
	}
	return Proxies{{hops: hops}}
}

// Header returns the same proxies, but believed by a header in which they put
// the client's address alone, such as X-Real-IP or CF-Connecting-IP, and which
// they replace whatever a client sends. It panics for an empty name, and for
// X-Forwarded-For and Forwarded, which are lists. It does not apply to
// [UnverifiedHops].
func (p Proxies) Header(name string) Proxies {
	name = http.CanonicalHeaderKey(name)
	switch name {
	case "", forwardedFor, forwarded:
		panic(fmt.Sprintf("middleware: Proxies.Header: %q does not hold a single address", name))
	}
	return p.with(bySingle, name)
}

// Forwarded returns the same proxies, but believed by the "for" parameter that
// they append to the Forwarded header of RFC 7239. It does not apply to
// [UnverifiedHops].
func (p Proxies) Forwarded() Proxies { return p.with(byForwarded, "") }

func (p Proxies) with(how source, header string) Proxies {
	p = slices.Clip(slices.Clone(p)) // what is appended is the caller's alone
	for i := range p {
		p[i].how, p[i].header = how, header
	}
	return p
}

// find tells which of the proxies an address is, if any. The invalid address
// stands for a unix socket. Counted hops are no addresses: if they matched
// here, a walk would go on to what the client has written.
func (p Proxies) find(addr netip.Addr) *proxy {
	for i := range p {
		known := &p[i]
		if known.unix && !addr.IsValid() || known.prefix.Contains(addr) {
			return known
		}
	}
	return nil
}

// hops is how many entries to count for a peer that is none of the proxies, or
// 0 if it is not to be believed.
func (p Proxies) hops() int {
	for i := range p {
		if p[i].hops > 0 {
			return p[i].hops
		}
	}
	return 0
}
