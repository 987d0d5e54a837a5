package queue

import "github.com/penstock/penstock/queue/invalid"

// Schedule returns the hours in which deferred jobs return; nil is always. Its error is an *invalid.Error.
func (d *Deferral) Schedule() (*Schedule, error) {
	const field = "deferred.readmit_between"
	h, open := d.ReadmitBetween.Hours, field+".open"
	if d.ReadmitBetween.isSpan() {
		open = field
	}
	switch {
	case d.Timezone == "":
		return h.schedule(field, open, field+".timezone")
	case !h.On():
		return nil, invalid.Errorf("deferred.timezone", d.Timezone, "has no effect without deferred.readmit_between")
	case h.Timezone != "":
		return nil, invalid.Errorf("deferred.timezone", d.Timezone, "is given beside %s.timezone; leave it out", field)
	}
	h.Timezone = d.Timezone
	return h.schedule(field, open, "deferred.timezone")
}
