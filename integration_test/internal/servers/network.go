package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/netip"
	"strings"
	"sync"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// A privateNetwork is the bridge network on which servers that have to know each other live. The test dials their
// addresses there, so Docker has to run on this machine, as it does on Linux.
//
// Addresses are chosen here: one that Docker chose would go to the next container as soon as its own is stopped or
// cut off, and a node that came back would be another one to its cluster.
type privateNetwork struct {
	id, name string
	subnet   netip.Prefix

	mu   sync.Mutex
	last netip.Addr // that was given away
}

// onlyNetwork is the network of this process, made when it is first needed. Main removes it.
var onlyNetwork = sync.OnceValues(func() (*privateNetwork, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	docker, err := engine()
	if err != nil {
		return nil, err
	}
	n := &privateNetwork{name: "redislimiter-test-" + strings.ToLower(rand.Text())}
	for range 20 {
		if err = n.create(ctx, docker); err == nil {
			networkMade = n
			return n, nil
		}
		if !strings.Contains(err.Error(), "overlap") {
			break
		}
	}
	return nil, fmt.Errorf("private network: %w", err)
})

// networkMade is read when all tests have ended.
var networkMade *privateNetwork

// create picks one of the networks that are set aside for tests (RFC 2544).
func (n *privateNetwork) create(ctx context.Context, docker client.NetworkAPIClient) error {
	base := netip.AddrFrom4([4]byte{198, byte(18 + mathrand.IntN(2)), byte(mathrand.IntN(256)), 0})
	n.subnet = netip.PrefixFrom(base, 24)
	n.last = base.Next() // the gateway's
	made, err := docker.NetworkCreate(ctx, n.name, client.NetworkCreateOptions{
		Driver: "bridge",
		IPAM:   &network.IPAM{Config: []network.IPAMConfig{{Subnet: n.subnet, Gateway: n.last}}},
		Labels: map[string]string{label: "true"},
	})
	n.id = made.ID
	return err
}

// next gives away an address that nobody else gets.
func (n *privateNetwork) next() (netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ip := n.last.Next()
	if !n.subnet.Contains(ip.Next()) { // the last one is for broadcasts
		return netip.Addr{}, errors.New("the private network is full")
	}
	n.last = ip
	return ip, nil
}

// endpoint is a container's place in the network.
func endpoint(ip netip.Addr) *network.EndpointSettings {
	return &network.EndpointSettings{IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: ip}}
}

func (n *privateNetwork) remove(ctx context.Context) error {
	docker, err := engine()
	if err != nil {
		return err
	}
	_, err = docker.NetworkRemove(ctx, n.id, client.NetworkRemoveOptions{})
	return err
}
