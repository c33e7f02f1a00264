<?php
// Symfony's Lock component, used as its documentation shows: a factory on a store, and a new Lock for each critical
// section. Lock::acquire(true) waits without limit, so the program repeats acquire() at that method's pace.

declare(strict_types=1);

use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\LockInterface;

const PACE_US = 100_000;

final class SymfonyLocks
{
    private ?LockFactory $factory = null;
    /** @var array<string, LockInterface> by key; also those whose acquire ended with an unknown outcome */
    private array $locks = [];

    private function __construct(private readonly Stores $stores, private readonly float $ttl)
    {
    }

    public static function open(array $request): self
    {
        $opened = new self(new Stores($request, new Record()), (float) $request['ttl']);
        $opened->factory();

        return $opened;
    }

    public function acquire(array $request): ?array
    {
        $until = now() + $request['timeout'];
        $lock = $this->factory()->createLock($this->stores->resource($request['key']), $this->ttl);
        while (!$this->isAcquired($request['key'], $lock)) {
            $left = $until - now();
            if ($left <= 0) {
                throw new Refused('busy');
            }
            usleep((int) min(1e6 * $left, PACE_US * random_int(90, 110) / 100));
        }
        $validFor = $lock->getRemainingLifetime();

        return null === $validFor ? null : ['valid_for' => $validFor];
    }

    public function release(array $request): mixed
    {
        $lock = $this->locks[$request['key']] ?? throw new Refused('not held');
        $this->stores->record->begin();
        try {
            $lock->release();
        } catch (Throwable $error) {
            $this->factory = null;
            throw new Doubtful(self::reason($error));
        } finally {
            unset($lock);
            $this->forget($request['key']);
        }
        if ($this->stores->record->mayKeep() >= $this->stores->quorum()) {
            throw new Doubtful('a server has not answered, which the library does not report');
        }

        return null;
    }

    public function still_valid(array $request): bool
    {
        $lock = $this->locks[$request['key']] ?? null;
        try {
            return (bool) $lock?->isAcquired();
        } catch (Throwable) {
            return false; // nobody who cannot ask can rely on it
        }
    }

    public function extend(array $request): bool
    {
        $lock = $this->locks[$request['key']] ?? null;
        try {
            $lock?->refresh();
        } catch (LockConflictedException) {
            return false;
        } catch (Throwable $error) {
            throw new Doubtful(self::reason($error));
        }

        return null !== $lock;
    }

    private function isAcquired(string $key, LockInterface $lock): bool
    {
        $record = $this->stores->record;
        $record->begin();
        try {
            $acquired = $lock->acquire();
            $error = null;
        } catch (Throwable $error) {
            $this->factory = null; // the next call connects anew
            $acquired = false;
        }
        $mayBe = $record->mayHave() >= $this->stores->quorum() || ($error && Stores::isUnanswered($error));
        if ($acquired || $mayBe) {
            $this->forget($key);
            $this->locks[$key] = $lock;
        }
        if (!$acquired && $mayBe) {
            throw new Doubtful($error ? self::reason($error) : 'a server has not answered, and the library returned false');
        }
        if ($error) {
            throw new Refused(self::reason($error));
        }

        return $acquired;
    }

    /** Ends the use of a Lock object. Its destructor releases the lock if it believes that it holds it. */
    private function forget(string $key): void
    {
        try {
            unset($this->locks[$key]);
        } catch (Throwable) {
            // The service did not answer the destructor, and its user has already been told.
        }
    }

    private function factory(): LockFactory
    {
        return $this->factory ??= new LockFactory($this->stores->open());
    }

    private static function reason(Throwable $error): string
    {
        $cause = $error->getPrevious();

        return $error->getMessage().($cause ? " {$cause->getMessage()}" : '');
    }
}
