package main

// openers open the locks of this program; main.go is also that of docker/client-go.
var openers = map[string]func(request) (locks, error){
	"bsm-redislock":  openRedislock,
	"consul-go-lock": openConsul,
	"go-etcd-mutex":  openEtcd,
	"redsync":        openRedsync,
}
