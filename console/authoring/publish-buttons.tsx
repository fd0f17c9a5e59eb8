/** The version field, the buttons that publish or save a draft, and the result. */
import { Button, Group, Progress, Stack, Text, TextInput } from '@mantine/core';
import { type Ref, useState } from 'react';
import { getFaults } from '../editor/faults.ts';
import { Dialog } from '../shell/dialog.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import type { OnPlace } from './fault-list.tsx';
import { PublishFaults } from './publish-faults.tsx';
import type { Publishing } from './use-publishing.ts';

interface Props {
  readonly publishing: Publishing;
  readonly onPlace?: OnPlace;
  /** Files of the newest version that this package lacks. The user is asked once before they are published without. */
  readonly leftOut?: readonly string[];
  /** The first field. */
  readonly first?: Ref<HTMLInputElement>;
}

/** The buttons and the result stay in view, however far the page scrolls. */
export function PublishButtons({ publishing, onPlace, leftOut = [], first }: Props) {
  const { dropped, semVer, setSemVer, semVerFault, part, publish, draft } = publishing;
  const [isChecked, setChecked] = useState(false);
  const [isAsking, setAsking] = useState(false);
  const [isLossAllowed, setLossAllowed] = useState(false);
  const last = getLast(publishing);
  const { error } = last;
  const sent = (last === draft ? draft : publish).variables?.sent;
  const start = () => {
    setChecked(true);
    if (semVerFault !== null) return;
    if (leftOut.length > 0 && !isLossAllowed) setAsking(true);
    else publish.mutate(dropped);
  };
  const allowLoss = () => {
    setLossAllowed(true);
    setAsking(false);
    publish.mutate(dropped);
  };
  return (
    <Stack className="publish-bar" gap="xs">
      {error ? (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
        <div className="publish-faults" tabIndex={0}>
          <PublishFaults
            error={error}
            draftSavedAt={publishing.draftSavedAt}
            onPlace={onPlace}
            onReplace={() => draft.mutate({ sent: dropped, isForced: true })}
          />
          {sent === dropped || getFaults(error).length === 0 ? null : (
            <Text size="sm" c="dimmed" mt={4}>
              The files have changed since, so lines may have moved. To check them, save or publish again.
            </Text>
          )}
        </div>
      ) : null}
      <Group align="flex-end" gap="sm">
        <TextInput
          ref={first}
          label="Version"
          value={semVer}
          onChange={(event) => {
            setChecked(false);
            setSemVer(event.currentTarget.value);
          }}
          error={isChecked ? semVerFault : null}
          // Above the field: the buttons stay beside it.
          inputWrapperOrder={['label', 'error', 'input']}
        />
        <Button loading={publish.isPending} onClick={start}>
          Publish
        </Button>
        <Button variant="default" loading={draft.isPending} onClick={() => draft.mutate({ sent: dropped })}>
          Save as draft
        </Button>
      </Group>
      {publish.isPending ? <Progress value={part * 100} aria-label="Sent" /> : null}
      <PublishStatus publishing={publishing} />
      <LossDialog paths={leftOut} isOpen={isAsking} onClose={() => setAsking(false)} onConfirm={allowLoss} />
    </Stack>
  );
}

interface LossDialogProps {
  readonly paths: readonly string[];
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly onConfirm: () => void;
}

function LossDialog({ paths, isOpen, onClose, onConfirm }: LossDialogProps) {
  return (
    <Dialog title="Publish without some files?" opened={isOpen} onClose={onClose}>
      <Stack>
        <Text className="foreign">
          The version will not include {escapeText(paths.join(', '))}. To include them, publish a zip.
        </Text>
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose} data-autofocus>
            Cancel
          </Button>
          <Button color="red" onClick={onConfirm}>
            Publish without them
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}

/** The request that the user made last, whose result is shown. */
const getLast = ({ publish, draft }: Publishing) => (publish.submittedAt > draft.submittedAt ? publish : draft);

function PublishStatus({ publishing }: { readonly publishing: Publishing }) {
  const { publish, draft } = publishing;
  const last = getLast(publishing);
  const warnings = last.data?.warnings.map(escapeText).join(' ');
  return (
    <div role="status">
      {last === publish && publish.data ? (
        <Text size="sm">
          {publish.data.semVer} is published. To change it, publish a new version. {warnings}
        </Text>
      ) : null}
      {last === draft && draft.data ? <Text size="sm">The draft is saved. {warnings}</Text> : null}
    </div>
  );
}
