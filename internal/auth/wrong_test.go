package auth

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWrongTokensAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		synctest.Wait()
		secret, _ := NewToken()
		for range 180 { // three minutes
			for n := range 3 {
				request := with(secret[:len(secret)-1])
				request.RemoteAddr = fmt.Sprintf("192.0.2.%d:%d", n, 1000+n)
				_, _ = r.Identify(request)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Second)
		if n := strings.Count(r.log.String(), "were refused"); n != 9 {
			t.Errorf("%d lines:\n%s", n, r.log)
		}
		before := len(r.log.String())
		for n := range 20 * mostAddresses {
			request := with(secret[:len(secret)-1])
			request.RemoteAddr = fmt.Sprintf("[2001:db8::%x]:80", n+1)
			_, _ = r.Identify(request)
		}
		r.wrong.mu.Lock()
		if n := len(r.wrong.from); n > mostAddresses {
			t.Errorf("%d addresses are kept", n)
		}
		r.wrong.mu.Unlock()
		time.Sleep(time.Minute)
		if n := strings.Count(r.log.String()[before:], "\n"); n != mostLines+1 {
			t.Errorf("%d lines", n)
		}
		r.silent(secret[secretAt : len(secret)-1])
		r.stop()
	})
}
