/** Submits a form of the playground. While its call runs, shows for how long, and a button to cancel it. */
import { Button, type ButtonProps, Group, Text } from '@mantine/core';
import { useInterval } from '@mantine/hooks';
import { useState } from 'react';
import type { PlaygroundCall } from './use-playground-call.ts';

interface RunButtonProps extends ButtonProps {
  readonly call: PlaygroundCall;
  readonly children: string;
}

const SECOND_MS = 1_000;

export function RunButton({ call: { isPending, cancel }, children, ...button }: RunButtonProps) {
  return (
    <Group gap="sm">
      <Button type="submit" {...button} loading={isPending}>
        {children}
      </Button>
      {isPending ? (
        <>
          <Button variant="default" onClick={cancel}>
            Cancel
          </Button>
          <Elapsed />
        </>
      ) : null}
    </Group>
  );
}

function Elapsed() {
  const [seconds, setSeconds] = useState(0);
  useInterval(() => setSeconds((before) => before + 1), SECOND_MS, { autoInvoke: true });
  return (
    <Text size="sm" c="dimmed" role="timer">
      {seconds === 0 ? 'Running' : `Running for ${seconds} s`}
    </Text>
  );
}
