/** The version field, the buttons that publish or save a draft, and the result. */
import { Button, Group, Progress, Stack, Text, TextInput } from '@mantine/core';
import type { Ref } from 'react';
import { escapeText } from '../style/untrusted-text.ts';
import type { OnPlace } from './fault-list.tsx';
import { PublishFaults } from './publish-faults.tsx';
import type { Publishing } from './use-publishing.ts';

interface Props {
  readonly publishing: Publishing;
  readonly onPlace?: OnPlace;
  /** The first field. */
  readonly first?: Ref<HTMLInputElement>;
}

export function PublishButtons({ publishing, onPlace, first }: Props) {
  const { dropped, semVer, setSemVer, part, publish, draft, canPublish, canSave } = publishing;
  const error = publish.error ?? draft.error;
  return (
    <Stack>
      <Group align="flex-end">
        <TextInput ref={first} label="Version" placeholder="1.0.0" value={semVer} onChange={setSemVer} />
        <Button disabled={!canPublish} loading={publish.isPending} onClick={() => publish.mutate(dropped)}>
          Publish
        </Button>
        <Button
          variant="default"
          disabled={!canSave}
          loading={draft.isPending}
          onClick={() => draft.mutate({ sent: dropped })}
        >
          Save as draft
        </Button>
      </Group>
      {publish.isPending ? <Progress value={part * 100} aria-label="Sent" /> : null}
      <div role="status">
        {publish.data ? (
          <Text>Published. To change it, publish a new version. {publish.data.warnings.map(escapeText).join(' ')}</Text>
        ) : null}
        {draft.data ? <Text>The draft is saved. {draft.data.warnings.map(escapeText).join(' ')}</Text> : null}
      </div>
      {error ? (
        <PublishFaults
          error={error}
          onPlace={onPlace}
          onReplace={() => draft.mutate({ sent: dropped, isForced: true })}
        />
      ) : null}
    </Stack>
  );
}
