package test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/asynq"
	"github.com/penstock/penstock/internal/cli"
	"github.com/penstock/penstock/internal/ops"
)

// programFaults gives each command line, with its environment and files, to the program itself. The program must read
// all of it, but does not start: its context has ended.
func programFaults(t *testing.T, r *release) (found faults) {
	for _, p := range r.pods() {
		c := &p.spec.Containers[0]
		root := mount(t, &p, r)
		for _, e := range c.Env {
			if e.Name == "PENSTOCK_TOKEN" {
				t.Setenv(e.Name, "a-token")
			}
		}
		argv := commandLine(&p, root, map[string]string{
			"PENSTOCK_REDIS": "redis://127.0.0.1:1", "PENSTOCK_NATS": "nats://127.0.0.1:1",
		})
		if err := understood(t, argv); err != nil {
			found.add("%s: %v", p.owner, err)
		}
	}
	return found
}

// commandLine returns a pod's command line. Files are below root. Environment variables are flags, with values from
// secrets if the pod gets them from Secrets.
func commandLine(p *pod, root string, secrets map[string]string) []string {
	c := &p.spec.Containers[0]
	files := strings.NewReplacer("=/", "="+root+"/")
	passwords := strings.NewReplacer("$(REDIS_PASSWORD)", "x", "$(SENTINEL_PASSWORD)", "x")
	argv := slices.Clone(c.Command)
	for _, arg := range c.Args {
		argv = append(argv, files.Replace(arg))
	}
	for _, e := range c.Env {
		if !strings.HasPrefix(e.Name, "PENSTOCK_") || e.Name == "PENSTOCK_TOKEN" {
			continue
		}
		flag := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(e.Name, "PENSTOCK_")), "_", "-")
		argv = append(argv, "--"+flag+"="+files.Replace(passwords.Replace(cmp.Or(e.Value, secrets[e.Name]))))
	}
	return argv
}

// mount returns a directory with the files that the program sees.
func mount(t *testing.T, p *pod, r *release) (root string) {
	t.Helper()
	root = t.TempDir()
	for _, m := range p.spec.Containers[0].VolumeMounts {
		if err := fill(filepath.Join(root, m.MountPath), m.Name, p, r); err != nil {
			t.Fatalf("%s: %v", p.owner, err)
		}
	}
	return root
}

// fill writes the files of a volume below dir.
func fill(dir, volume string, p *pod, r *release) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	write := func(name, text string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
	for i := range p.spec.Volumes {
		v := &p.spec.Volumes[i]
		if v.Name != volume {
			continue
		}
		all := sources(v)
		if v.Secret != nil {
			all = append(all, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: v.Secret.SecretName}, Items: v.Secret.Items,
			}})
		}
		if v.ConfigMap != nil {
			all = append(all, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: v.ConfigMap.LocalObjectReference, Items: v.ConfigMap.Items,
			}})
		}
		for _, s := range all {
			for name, text := range content(&s, r) {
				if err := write(name, text); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// content returns the files of a ConfigMap of the release, or of a Secret, which has certificates or any text.
func content(s *corev1.VolumeProjection, r *release) map[string]string {
	files := map[string]string{}
	if s.ConfigMap != nil {
		for _, m := range of[*corev1.ConfigMap](r) {
			if m.Name == s.ConfigMap.Name {
				files = m.Data
			}
		}
		return files
	}
	cert, key := certificate()
	known := map[string]string{"ca.crt": cert, "tls.crt": cert, "tls.key": key}
	if len(s.Secret.Items) == 0 {
		return known
	}
	for _, item := range s.Secret.Items {
		files[item.Path] = "hunter2"
		if text, is := known[item.Key]; is {
			files[item.Path] = text
		}
		if item.Path == "admin.token" {
			files[item.Path] = adminToken()
		}
	}
	return files
}

// adminToken returns the token that the Secret of the operator has.
var adminToken = sync.OnceValue(func() string {
	var out, said bytes.Buffer
	if code := cli.Run(context.Background(), []string{"token", "generate"}, cli.Streams{
		In: strings.NewReader(""), Out: &out, Err: &said,
	}); code != cli.ExitDone {
		panic(said.String())
	}
	return strings.TrimSpace(out.String())
})

// certificate returns a certificate and its key in PEM.
var certificate = sync.OnceValues(func() (cert, key string) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		panic(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
})

// understood returns the error of a program that cannot read its command line or its files.
func understood(t *testing.T, argv []string) error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	name, args := argv[0], argv[1:]
	run := map[string]app.Program{"ingress": app.RunIngress, "drainer": app.RunDrainer(asynq.Open)}[name]
	if run != nil {
		if err := run(ctx, args, io.Discard, io.Discard); ops.IsMisuse(err) {
			return err
		}
		return nil
	}
	if name != "penstock" {
		return fmt.Errorf("%q is no program of the image", name)
	}
	if args[0] == "up" { // it gets as far as to listen
		args = append(args, "--listen=127.0.0.1:0", "--health-listen=127.0.0.1:0")
	}
	var out, said bytes.Buffer
	code := cli.Run(ctx, args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &said})
	if code == cli.ExitUsage {
		return fmt.Errorf("penstock %s: %s", args[0], said.String())
	}
	return nil
}

// The programs tell a wrong flag, value or file.
func TestProgramsTell(t *testing.T) {
	for _, argv := range [][]string{
		{"ingress", "--redis=redis://127.0.0.1:1", "--unsafe"},
		{"drainer", "--redis=redis://127.0.0.1:1", "--concurrency=none"},
		{"drainer", "--redis=redis://127.0.0.1:1", "--drain-delay=5s"},
		{"penstock", "up", "--redis=redis://127.0.0.1:1"},
		{"penstock", "init"},
		{"penstock", "queue", "apply", "--file=/nonexistent"},
		{"prober"},
	} {
		if err := understood(t, argv); err == nil {
			t.Errorf("%v is understood", argv)
		}
	}
	if err := understood(t, []string{"drainer", "--redis=redis://127.0.0.1:1", "--grace=5s"}); err != nil {
		t.Error(err)
	}
}
