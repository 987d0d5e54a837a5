package wire

// Readiness is the answer of a server that can accept jobs. A server that can accept only some of them stays in
// service.
type Readiness struct {
	Status   string `json:"status"` // ready or degraded
	Store    string `json:"store,omitempty"`
	Overflow string `json:"overflow,omitempty"`
	Pull     string `json:"pull,omitempty"`     // late or releasing
	Drainers string `json:"drainers,omitempty"` // none, late, hanging or releasing
	Detail   string `json:"detail,omitempty"`
	Auth     string `json:"auth,omitempty"` // off without authentication
}
