package servers

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
)

// tlsName is the name in the server's certificate.
const tlsName = "redis.test"

// tlsPort is where a server speaks TLS; without it, it listens beside that.
const tlsPort = 6380

// SharedTLS returns the address of a server that speaks TLS and asks clients for a certificate, with the configuration
// for a client. All tests of this binary use it; as with Shared, nobody may stop, flush or configure it.
func SharedTLS(tb testing.TB, kind Kind) (string, *tls.Config) {
	tb.Helper()
	keys, err := certificates()
	if err != nil {
		tb.Fatalf("certificates: %v", err)
	}
	s := sharedAs(tb, "TLS server", kind, func(ctx context.Context, kind Kind) (*Server, error) {
		s, err := startNode(ctx, kind, []string{plainServer(kind, 6379,
			"--tls-port 6380 --tls-cert-file /tmp/server.pem --tls-key-file /tmp/server.key --tls-ca-cert-file /tmp/ca.pem")},
			file("/tmp/ca.pem", keys.authority), file("/tmp/server.pem", keys.server), file("/tmp/server.key", keys.serverKey))
		if err != nil {
			return s, err
		}
		return s, awaitReady(ctx, addrOf(s.ip, 6379))
	})
	return addrOf(s.ip, tlsPort), keys.config.Clone()
}

// file is readable to all: the server does not run as root.
func file(path string, content []byte) testcontainers.ContainerFile {
	return testcontainers.ContainerFile{Reader: bytes.NewReader(content), ContainerFilePath: path, FileMode: 0o644}
}

// A keyring is what the two sides of TLS need, for a day.
type keyring struct {
	authority, server, serverKey []byte // PEM
	config                       *tls.Config
}

var certificates = sync.OnceValues(func() (*keyring, error) {
	authority := template("test authority")
	authority.IsCA, authority.BasicConstraintsValid, authority.KeyUsage = true, true, x509.KeyUsageCertSign
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	signed, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return nil, err
	}
	k := &keyring{authority: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})}
	var errs [3]error
	k.server, k.serverKey, errs[0] = issue(tlsName, x509.ExtKeyUsageServerAuth, authority, authorityKey)
	client, clientKey, err := issue("client", x509.ExtKeyUsageClientAuth, authority, authorityKey)
	errs[1] = err
	k.config = &tls.Config{ServerName: tlsName, RootCAs: x509.NewCertPool(), Certificates: make([]tls.Certificate, 1)}
	k.config.RootCAs.AppendCertsFromPEM(k.authority)
	k.config.Certificates[0], errs[2] = tls.X509KeyPair(client, clientKey)
	return k, errors.Join(errs[:]...)
})

func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62)) // it never fails
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

// issue makes a key and has its certificate signed.
func issue(name string, use x509.ExtKeyUsage, authority *x509.Certificate, signer *ecdsa.PrivateKey) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	unsigned := template(name)
	unsigned.ExtKeyUsage = []x509.ExtKeyUsage{use}
	signed, err := x509.CreateCertificate(rand.Reader, unsigned, authority, private.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), err
}
