<?php
// The mutexes of malkusch/lock. Their only method is synchronized(code): here the code is suspended in a fiber while
// the lock is held. The constructor's time-out is both the lease and the longest wait, so the client ends a shorter wait.

declare(strict_types=1);

use malkusch\lock\exception\ExecutionOutsideLockException;
use malkusch\lock\exception\LockAcquireException;
use malkusch\lock\exception\LockReleaseException;
use malkusch\lock\exception\TimeoutException;
use malkusch\lock\mutex\PHPRedisMutex;

/** The waiting time of the caller is over. */
final class WaitIsOver extends Exception
{
}

final class MalkuschLocks
{
    /** @var array<string, Fiber> by key: suspended in its critical section */
    private array $held = [];
    private float $tryBegan = 0;

    /** @param RecordedRedis[] $servers */
    private function __construct(
        private readonly array $servers,
        private readonly Record $record,
        private readonly int $ttl,
    ) {
    }

    public static function open(array $request): self
    {
        $record = new Record();
        $servers = RecordedRedis::ofAll($request['addresses'], $record);

        return new self($servers, $record, (int) ceil($request['ttl']));
    }

    public function acquire(array $request): array
    {
        $until = now() + $request['timeout'];
        $this->limitTries($until);
        for (;;) {
            $fiber = $this->criticalSection($request['key']);
            $this->record->begin();
            try {
                $fiber->start();
                break;
            } catch (WaitIsOver) {
                throw $this->notAcquired('busy');
            } catch (TimeoutException) { // after as long as a lease lasts
                if (now() >= $until) {
                    throw $this->notAcquired('busy');
                }
            } catch (LockAcquireException $error) {
                throw $this->notAcquired($error->getMessage());
            }
        }
        $this->forget($request['key']);
        $this->held[$request['key']] = $fiber;

        return ['valid_for' => $this->tryBegan + $this->ttl - now()];
    }

    public function release(array $request): mixed
    {
        $fiber = $this->held[$request['key']] ?? throw new Refused('not held');
        unset($this->held[$request['key']]);
        $this->record->begin();
        try {
            $fiber->resume();
        } catch (ExecutionOutsideLockException $error) {
            throw new Refused($error->getMessage());
        } catch (LockReleaseException $error) {
            throw $this->record->mayKeep() > 0 ? new Doubtful($error->getMessage()) : new Refused($error->getMessage());
        }

        return null;
    }

    private function criticalSection(string $key): Fiber
    {
        $mutex = new PHPRedisMutex($this->servers, $key, $this->ttl);

        return new Fiber(static fn () => $mutex->synchronized(static fn () => Fiber::suspend()));
    }

    /** Lets the first try begin in any case, and others until the waiting time is over. */
    private function limitTries(float $until): void
    {
        $tries = 0;
        [$first] = $this->servers;
        $first->beforeSet = function () use ($until, &$tries): void {
            if ($tries++ && now() >= $until) {
                throw new WaitIsOver();
            }
            $this->record->begin();
            $this->tryBegan = now();
        };
    }

    private function notAcquired(string $reason): Exception
    {
        $mayBe = $this->record->mayHave() > count($this->servers) / 2;

        return $mayBe ? new Doubtful("$reason; its key may be set on {$this->record->mayHave()} servers") : new Refused($reason);
    }

    /** Ends the critical section of an earlier acquire, whose lease is over. */
    private function forget(string $key): void
    {
        try {
            unset($this->held[$key]);
        } catch (Throwable) {
            // It says that the section was too long.
        }
    }
}
