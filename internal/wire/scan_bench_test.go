package wire

import "testing"

// A modern call as clients send it, and its answer.
var (
	benchCall = []byte(`{"jsonrpc":"2.0","id":42949672961,"method":"tools/call","params":{"name":"echo","arguments":{"message":"0123456789abcdef0123456789abcdef"},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},` +
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`)
	benchAnswer = []byte(`{"jsonrpc":"2.0","id":17,"result":{"resultType":"complete","content":[{"type":"text","text":"0123456789abcdef0123456789abcdef"}],"isError":false}}`)
)

func BenchmarkScan(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(benchCall)))
	for b.Loop() {
		if _, err := Scan(benchCall); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkScanServer(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(benchAnswer)))
	for b.Loop() {
		if _, err := ScanServer(benchAnswer); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if Get(benchAnswer, "result") == nil {
			b.Fatal("not found")
		}
	}
}
