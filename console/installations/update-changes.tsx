/** Shows what an update changes besides access: the texts that models read, and the source. */
import { Skeleton, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { components } from '../../sdk/rest/schema.d.ts';
import { readBody, rest } from '../rest/client.ts';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { Monospace } from '../shell/monospace.tsx';
import { escapeLine, escapeText } from '../style/untrusted-text.ts';

type Changes = components['schemas']['UpdateChanges'];
type Lines = Changes['files'][number]['lines'];

interface Props {
  readonly installationId: string;
  /** The version that the user is asked about. The service refuses to compare another one. */
  readonly versionId: string;
}

export const useUpdateChanges = ({ installationId, versionId }: Props) =>
  useQuery({
    queryKey: ['installations', installationId, 'update-changes', versionId],
    queryFn: () => {
      const params = { path: { id: installationId }, query: { versionId } };
      return readBody(rest.GET('/installations/{id}/update-changes', { params }));
    },
  });

export function UpdateChanges(props: Props) {
  const found = useUpdateChanges(props);
  if (found.error && !found.data) return <ErrorAlert error={found.error} reset={() => void found.refetch()} />;
  if (!found.data) return <Skeleton height={60} aria-label="Loading" />;
  const { texts, files } = found.data;
  return (
    <Stack gap="xs">
      <Title order={3}>What models read</Title>
      {texts.length === 0 ? (
        <Text size="sm" c="dimmed">
          No description, command or skill changes.
        </Text>
      ) : (
        texts.map(({ kind, name, change, lines }) => (
          <Change key={`${kind} ${name}`} name={`${kind} ${name}`} change={change} lines={lines} opened />
        ))
      )}
      <Title order={3}>Source</Title>
      {files.length === 0 ? (
        <Text size="sm" c="dimmed">
          No file changes.
        </Text>
      ) : (
        files.map(({ path, change, lines }) => (
          <Change key={path} name={path} change={change} lines={lines} opened={false} />
        ))
      )}
    </Stack>
  );
}

interface ChangeProps {
  readonly name: string;
  readonly change: Changes['files'][number]['change'];
  readonly lines: Lines;
  readonly opened: boolean;
}

function Change({ name, change, lines, opened }: ChangeProps) {
  return (
    <details className="foreign" open={opened}>
      <summary>
        <Monospace>{escapeText(name)}</Monospace> {change}
      </summary>
      {lines === null ? (
        <Text size="sm" c="dimmed">
          It is not shown: it is binary or too long, or the changes before it take all the space.
        </Text>
      ) : (
        <DiffText lines={lines} />
      )}
    </details>
  );
}

const SIGNS = { same: ' ', added: '+', removed: '-', gap: '…' } as const;

/** The sign is text, so that the difference does not depend on the colour. */
function DiffText({ lines }: { readonly lines: NonNullable<Lines> }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    <pre className="payload foreign diff" tabIndex={0}>
      {lines.map(({ kind, text }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines of one comparison never move
        <span key={index} data-kind={kind}>
          {SIGNS[kind]} {escapeLine(text)}
        </span>
      ))}
    </pre>
  );
}
