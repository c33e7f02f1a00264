package main

var openers = map[string]func(request) (locks, error){"client-go-leader": openLeader}
