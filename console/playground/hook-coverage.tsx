/** Which hooks the runtime of a session fires. */
import { List, Skeleton, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { HookCoverage } from '../../sdk/session/api-types.ts';
import { FOLLOW_MS } from '../rest/installations.ts';
import { callSessions } from '../rest/session-api.ts';
import { useReadError } from '../rest/use-read-error.ts';
import { ErrorAlert } from '../shell/error-alert.tsx';

interface Hooks {
  readonly coverage: readonly HookCoverage[];
  readonly strict: boolean;
}

export function HookCoverageList({ id, path }: { readonly id: string; readonly path: string }) {
  const hooks = useQuery({
    queryKey: ['sessions', id, 'hooks'],
    queryFn: () => callSessions<Hooks>('GET', `${path}/hooks`),
    refetchInterval: FOLLOW_MS,
  });
  const error = useReadError(hooks);
  if (error && !hooks.data) return <ErrorAlert error={error} reset={() => void hooks.refetch()} />;
  if (!hooks.data) return <Skeleton height={120} aria-label="Loading" />;
  const usedHooks = hooks.data.coverage.filter((hook) => hook.asked > 0 || (hook.messages?.total ?? 0) > 0);
  const never = hooks.data.coverage.filter((hook) => !usedHooks.includes(hook)).map(({ name }) => name);
  return (
    <>
      <List size="sm">
        {usedHooks.map((hook) => (
          <List.Item key={hook.name}>{describeHook(hook)}</List.Item>
        ))}
      </List>
      {hooks.data.strict && <Text size="sm">Strict: messages that no hook judged are refused.</Text>}
      {usedHooks.some(countUnjudged) ? (
        <Text size="sm" c="dimmed">
          A message counts as judged when a turn of an agent runtime sent it through the hook. Those of this page do
          not.
        </Text>
      ) : null}
      {never.length > 0 ? (
        <details>
          <summary>{never.length === 1 ? '1 hook never ran' : `${never.length} hooks never ran`}</summary>
          <Text size="sm" c="dimmed">
            {never.join(', ')}
          </Text>
        </details>
      ) : (
        <Text size="sm" c="dimmed">
          Every hook ran.
        </Text>
      )}
    </>
  );
}

function describeHook({ name, asked, cancelled, messages }: HookCoverage): string {
  const times = `${asked} ${asked === 1 ? 'time' : 'times'}`;
  const unjudged = countUnjudged({ messages });
  const judgement = unjudged === 0 ? '' : `; ${unjudged} of ${messages?.total} messages are not judged`;
  return `${name}: ran ${times}${cancelled > 0 ? `, ${cancelled} cancelled` : ''}${judgement}`;
}

const countUnjudged = ({ messages }: Pick<HookCoverage, 'messages'>): number =>
  messages === null ? 0 : messages.total - messages.judged;
