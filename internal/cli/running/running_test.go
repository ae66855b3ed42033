package running

import "testing"

func TestHostHeader(t *testing.T) {
	const address = "127.0.0.1:8090"
	for _, tt := range []struct {
		allowed []string
		want    string
	}{
		{nil, address},
		{[]string{"*"}, address},
		{[]string{"localhost"}, address},
		{[]string{"crib.example.com", "127.0.0.1"}, address},
		{[]string{"crib.example.com"}, "crib.example.com:8090"},
		{[]string{"crib.example.com:443"}, "crib.example.com:443"},
		{[]string{"*.example.com"}, "crib.example.com:8090"},
	} {
		if got := HostHeader(tt.allowed, address); got != tt.want {
			t.Errorf("HostHeader(%q) = %q; want %q", tt.allowed, got, tt.want)
		}
	}
}
