package test

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/penstock/penstock/deliver/egress"
)

func itoa(n int32) string { return strconv.Itoa(int(n)) }

// policyFaults checks that a NetworkPolicy covers each pod, with every port that the pod needs, and that targets may be
// where Penstock itself allows them.
func policyFaults(t *testing.T, r *release) (found faults) {
	policies := of[*networkingv1.NetworkPolicy](r)
	if len(policies) == 0 && strings.Contains(r.values, "networkPolicy: {enabled: false}") {
		return nil
	}
	for _, p := range r.pods() {
		covering := slices.DeleteFunc(slices.Clone(policies), func(n *networkingv1.NetworkPolicy) bool {
			return len(r.selected(n.Spec.PodSelector.MatchLabels)) == 0 ||
				n.Spec.PodSelector.MatchLabels["app.kubernetes.io/component"] != p.component()
		})
		if len(covering) != 1 {
			found.add("%s: %d policies cover it", p.owner, len(covering))
			continue
		}
		n := covering[0]
		if len(n.Spec.PolicyTypes) != 2 {
			found.add("%s: a direction is open", n.Name)
		}
		for _, rule := range n.Spec.Ingress {
			for _, port := range rule.Ports {
				if p.port(port.Port.StrVal) == 0 {
					found.add("%s: there is no port %s", n.Name, port.Port.StrVal)
				}
			}
		}
		for _, port := range p.spec.Containers[0].Ports {
			if !slices.ContainsFunc(n.Spec.Ingress, func(rule networkingv1.NetworkPolicyIngressRule) bool {
				return rule.Ports[0].Port.StrVal == port.Name
			}) {
				found.add("%s: nobody can reach the port %s", n.Name, port.Name)
			}
		}
		opened := map[string]bool{}
		for _, rule := range n.Spec.Egress {
			for _, port := range rule.Ports {
				opened[port.Port.String()] = true
			}
		}
		for _, port := range ports(&p) {
			if !opened[port] {
				found.add("%s: it lets nothing out to the port %s", n.Name, port)
			}
		}
		if c := p.component(); c == "drainer" || c == "up" {
			found = append(found, targetFaults(t, &p, n)...)
		} else if slices.ContainsFunc(n.Spec.Egress, anyPort) && !strings.Contains(r.values, "extraEgress") {
			found.add("%s: it delivers nothing, and may use any port", n.Name)
		}
	}
	return found
}

func anyPort(rule networkingv1.NetworkPolicyEgressRule) bool { return len(rule.Ports) == 0 }

var portOf = regexp.MustCompile(`:(\d+)(/|$)`)

// ports returns the ports that a pod must be able to use, as far as its flags and environment show them.
func ports(p *pod) []string {
	all := []string{"53"}
	c := &p.spec.Containers[0]
	if option(c.Args, "--server") != "" {
		return append(all, "8080")
	}
	for _, e := range c.Env {
		for _, name := range []string{"PENSTOCK_REDIS", "PENSTOCK_NATS"} {
			if e.Name != name {
				continue
			}
			if e.Value == "" {
				all = append(all, map[string]string{"PENSTOCK_REDIS": "6379", "PENSTOCK_NATS": "4222"}[name])
			}
			rest, _, _ := strings.Cut(e.Value, "?")
			for host := range strings.SplitSeq(rest[strings.LastIndex(rest, "@")+1:], ",") {
				if m := portOf.FindStringSubmatch(host); m != nil {
					all = append(all, m[1])
				}
			}
		}
	}
	return all
}

// targetFaults compares a policy with Penstock's own guard of targets. The policy may allow more, never less.
func targetFaults(t *testing.T, p *pod, n *networkingv1.NetworkPolicy) (found faults) {
	t.Helper()
	var allow []string
	if given := option(p.spec.Containers[0].Args, "--egress-allow"); given != "" {
		allow = strings.Split(given, ",")
	}
	guard, err := egress.New(allow...)
	if err != nil {
		t.Fatal(err)
	}
	probes := []string{
		"1.1.1.1", "203.0.114.1", "2606:4700::1111", "10.0.0.1", "10.1.2.3", "192.168.7.9", "192.168.7.8", "172.16.0.1",
		"169.254.169.254", "100.64.0.1", "127.0.0.1", "fd00:7::1", "fd00:8::1", "fe80::1",
	}
	for _, text := range probes {
		addr := netip.MustParseAddr(text)
		if guard.Check(text, 443) == nil && !reaches(n, addr) {
			found.add("%s: it keeps %s from targets at %s, which Penstock allows", n.Name, p.component(), addr)
		}
		if reaches(n, addr) && !addr.IsGlobalUnicast() {
			found.add("%s: it opens %s", n.Name, addr)
		}
		if reaches(n, addr) && addr.IsPrivate() && guard.Check(text, 443) != nil {
			found.add("%s: it opens %s, which Penstock does not allow", n.Name, addr)
		}
	}
	return found
}

// reaches reports whether a policy allows any port of an address.
func reaches(n *networkingv1.NetworkPolicy, addr netip.Addr) bool {
	in := func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(addr) }
	for _, rule := range n.Spec.Egress {
		if len(rule.Ports) > 0 {
			continue
		}
		for _, to := range rule.To {
			if to.IPBlock != nil && in(to.IPBlock.CIDR) && !slices.ContainsFunc(to.IPBlock.Except, in) {
				return true
			}
		}
	}
	return false
}
