package smtptarget

import (
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// Defaults and limits of an SMTP.
const (
	DefaultPort           = 587 // RFC 6409
	DefaultImplicitPort   = 465 // RFC 8314
	DefaultTimeout        = time.Minute
	MinTimeout            = 10 * time.Millisecond
	MaxTimeout            = time.Hour
	DefaultMaxConnections = 20 // like Postfix's smtp_destination_concurrency_limit
	MaxMaxConnections     = 1000
	maxCredentialBytes    = 1024
)

// How a connection is secured.
const (
	StartTLS      = "starttls" // required
	ImplicitTLS   = "implicit" // from its first byte
	Opportunistic = "opportunistic"
	NoTLS         = "none"
)

// Mechanisms of login.
const (
	Auto    = "auto" // the first of the others that the server offers
	Plain   = "plain"
	Login   = "login"
	CRAMMD5 = "cram-md5"
)

// SMTP is the setting of a mail server.
type SMTP struct {
	Server string `json:"host"`
	Port   int    `json:"port,omitempty"`
	TLS    string `json:"tls,omitempty"`
	// Username and Password are the credentials. The password should be ${secret:NAME}.
	Username  string `json:"username,omitempty"`
	Password  string `json:"password,omitempty"`
	Mechanism string `json:"mechanism,omitempty"`
	// From is the sender. Messages may name another sender only if AllowFrom has a pattern for its address, such as
	// *@example.com.
	From      string           `json:"from,omitempty"`
	AllowFrom setting.Patterns `json:"allow_from,omitempty"`
	// Helo is the drainer's name in EHLO; the default is the machine's.
	Helo string `json:"helo,omitempty"`
	// MessageIDDomain is the domain of Message-IDs; the default is the sender's.
	MessageIDDomain string `json:"message_id_domain,omitempty"`
	// Timeout is the maximum time from the departure to the answer to the message.
	Timeout unit.Duration `json:"timeout,omitempty"`
	// MaxConnections is the maximum number of connections of a drainer.
	MaxConnections int `json:"max_connections,omitempty"`
}

// Default returns a setting with its defaults.
func Default() *SMTP {
	return &SMTP{
		TLS: StartTLS, Mechanism: Auto, Timeout: unit.Duration(DefaultTimeout), MaxConnections: DefaultMaxConnections,
	}
}

var (
	_ setting.Hosted  = (*SMTP)(nil)
	_ setting.Sending = (*SMTP)(nil)
)

// Check implements setting.Setting.
func (s *SMTP) Check(at string) error {
	at += "."
	switch {
	case s.Server == "":
		return setting.Error(
			at+"host", "", "is missing; it must be the name or address of an SMTP server, such as smtp.example.com",
		)
	case !isHost(s.Server):
		return setting.Error(
			at+"host", secrets.MaskURL(s.Server),
			"must be only a name or address, such as smtp.example.com; the port has its own field",
		)
	case s.Port < 0 || s.Port > 65535:
		return setting.Error(at+"port", strconv.Itoa(s.Port), "must be from 1 to 65535")
	}
	switch s.TLS {
	case StartTLS, Opportunistic, NoTLS:
	case ImplicitTLS:
		if s.Port == 0 {
			s.Port = DefaultImplicitPort
		}
	default:
		return setting.Error(at+"tls", s.TLS, "must be starttls, implicit, opportunistic or none")
	}
	if s.Port == 0 {
		s.Port = DefaultPort
	}
	if err := s.checkLogin(at); err != nil {
		return err
	}
	if err := secrets.None(at+"from", s.From); err != nil {
		return err
	}
	if s.From != "" {
		if _, err := parseAddress(s.From); err != nil {
			return setting.Error(at+"from", s.From, err.Error())
		}
	}
	if err := s.AllowFrom.Check(at+"allow_from", notAnAddress); err != nil {
		return err
	}
	if s.Helo != "" && !isHost(s.Helo) {
		return setting.Error(at+"helo", s.Helo, "must be a host name, such as out.example.com")
	}
	if s.MessageIDDomain != "" && !isDomain(s.MessageIDDomain) {
		return setting.Error(at+"message_id_domain", s.MessageIDDomain, "must be a domain, such as example.com")
	}
	if s.Timeout.D() < MinTimeout || s.Timeout.D() > MaxTimeout {
		return setting.Error(at+"timeout", s.Timeout.String(), "must be from "+MinTimeout.String()+" to "+MaxTimeout.String())
	}
	if s.MaxConnections < 1 || s.MaxConnections > MaxMaxConnections {
		return setting.Error(
			at+"max_connections", strconv.Itoa(s.MaxConnections), "must be from 1 to "+strconv.Itoa(MaxMaxConnections),
		)
	}
	return nil
}

func (s *SMTP) checkLogin(at string) error {
	switch s.Mechanism {
	case Auto, Plain, Login, CRAMMD5:
	default:
		return setting.Error(at+"mechanism", s.Mechanism, "must be auto, plain, login or cram-md5")
	}
	for name, value := range map[string]string{"username": s.Username, "password": s.Password} {
		if len(value) > maxCredentialBytes || strings.IndexFunc(value, unicode.IsControl) >= 0 {
			return setting.Error(
				at+name, "", "must have at most "+strconv.Itoa(maxCredentialBytes)+" bytes, and no control characters",
			)
		}
	}
	switch {
	case strings.Contains(s.Username, "${"):
		return setting.Error(at+"username", "", "refers to a secret; only the password can, because people must see the user")
	case (s.Username == "") != (s.Password == ""):
		return setting.Error(at+"username", "", "and password must be given together, or both left out")
	case s.Password == "":
		return nil
	case s.TLS != StartTLS && s.TLS != ImplicitTLS && !isLoopback(s.Server):
		return setting.Error(
			at+"tls", s.TLS,
			"could send the password where others can read it; with a password it must be starttls or implicit, unless the "+
				"host is loopback",
		)
	}
	return secrets.Check(at+"password", s.Password)
}

// notAnAddress returns what is wrong with a pattern of addresses. It must have one @, so that it cannot match another
// domain.
func notAnAddress(pattern string) string {
	if pattern != "*" && strings.Count(pattern, "@") != 1 || strings.Contains(pattern, " ") {
		return "must be an address in which * stands for anything, such as *@example.com or news-*@example.com, or * alone " +
			"for any"
	}
	return ""
}

// Hosts implements setting.Hosted.
func (s *SMTP) Hosts() []setting.Host {
	return []setting.Host{{
		Field: "host", Name: s.Server, Port: uint16(s.Port), TLS: s.TLS == StartTLS || s.TLS == ImplicitTLS,
	}}
}

// Uses implements setting.Hosted.
func (s *SMTP) Uses() []setting.Use {
	return []setting.Use{{Field: "password", Text: s.Password, To: s.Hosts()}}
}

// Senders implements setting.Sending.
func (s *SMTP) Senders() []setting.Sender {
	from := s.From
	if address, err := parseAddress(from); err == nil {
		from = address.Address
	}
	return setting.SendersOf(from, s.AllowFrom)
}

// Exposes implements setting.Hosted. (Without TLS a password is sent only to this machine; see checkLogin.)
func (s *SMTP) Exposes(before setting.Setting) (field, reason string) {
	b, ok := before.(*SMTP)
	switch {
	case !ok || !strings.EqualFold(b.Server, s.Server):
		return "host", setting.OtherHost
	case b.Port != s.Port:
		return "port", setting.OtherPort
	}
	return "", ""
}

// OnUnknown implements setting.Setting. No server reliably recognizes a repeated Message-ID.
func (s *SMTP) OnUnknown() string { return queue.UnknownHold }

// Accept implements setting.Setting: it composes the message and discards it.
func (s *SMTP) Accept(job *queue.Job) error {
	_, err := s.letter(job, time.Now())
	return err
}

func isHost(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	return isDomain(s) && isASCII(s) && !egress.EndsInNumber(s) // some resolvers read 2130706433 as an address
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}
