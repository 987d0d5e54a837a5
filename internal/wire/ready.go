package wire

// Readiness is the answer of a server that can take jobs. One that can take only some of them stays in service: it is
// of more use than none.
type Readiness struct {
	Status   string `json:"status"` // ready or degraded
	Store    string `json:"store,omitempty"`
	Overflow string `json:"overflow,omitempty"`
	Pull     string `json:"pull,omitempty"`     // late or releasing
	Drainers string `json:"drainers,omitempty"` // none, late, hanging or releasing
	Detail   string `json:"detail,omitempty"`
	Auth     string `json:"auth,omitempty"` // off if nobody is asked who he is
}
