package workspace

import "testing"

// What a page would show to more people than the file it came from.
func TestIsKey(t *testing.T) {
	for _, tc := range []struct {
		name, value string
		want        bool
	}{
		{"GITHUB_TOKEN", "hunter2", true},
		{"DB_PASSWORD", "summer", true},
		{"AUTH_KEY", "abcd", true},
		{"X-API-Key", "letmein", true},
		{"X-Auth-Token", "letmein", true},
		{"ANYTHING", "ghp_0123456789abcdefghijklmnopqrstuvwxyz", true},
		{"LOG_LEVEL", "debug", false},
		{"KEY", "enter", false},
		{"TOKEN_FILE", "/run/token", false},
		{"USE_TOKEN", "true", false},
		{"MONKEY", "banana", false},
		{"API_KEY", "", false},
	} {
		if got := isKey(tc.name, tc.value); got != tc.want {
			t.Errorf("%s=%s: %v", tc.name, tc.value, got)
		}
	}
}
