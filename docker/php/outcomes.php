<?php
// Outcomes of a call that are not a success, and the record from which they are decided.

declare(strict_types=1);

/** The call is known not to have happened. */
final class Refused extends Exception
{
}

/** It is unknown whether the call happened. */
final class Doubtful extends Exception
{
}

/**
 * What the requests of one call did to its key on each server. The libraries do not report it: some return false, or
 * nothing, when a server has not answered.
 */
final class Record
{
    /** @var array<int, true> servers that have the key of this call, or may have it */
    private array $mayHave = [];
    /** @var array<int, true> servers that have not answered a request to delete it */
    private array $mayKeep = [];

    /** Begins a call. */
    public function begin(): void
    {
        $this->mayHave = $this->mayKeep = [];
    }

    /** Records a request that sets the key: true, false, or null for no answer. */
    public function set(int $server, ?bool $done): void
    {
        if (false !== $done) {
            $this->mayHave[$server] = true;
        }
    }

    /** Records a request that deletes the key, or finds that it is not there. */
    public function deleted(int $server, bool $answered): void
    {
        if ($answered) {
            unset($this->mayHave[$server], $this->mayKeep[$server]);
        } else {
            $this->mayKeep[$server] = true;
        }
    }

    public function mayHave(): int
    {
        return count($this->mayHave);
    }

    public function mayKeep(): int
    {
        return count($this->mayKeep);
    }
}

/** Seconds of a clock that nobody sets. */
function now(): float
{
    return hrtime(true) / 1e9;
}
