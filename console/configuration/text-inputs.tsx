/** Text inputs for settings and secrets, whose values may have several lines, such as a private key in PEM. */
import type { PasswordInputProps, TextInputProps } from '@mantine/core';
import { type ClipboardEvent, type DragEvent, type SyntheticEvent, useRef, useState } from 'react';
import { PasswordField, TextAreaField, TextField } from '../shell/form-fields.tsx';

type Shared = 'aria-required' | 'description' | 'placeholder' | 'withAsterisk';
interface Values {
  readonly name: string;
  readonly label: string;
  readonly value: string;
  readonly onValue: (value: string) => void;
}

/** Lines that an input shows before it scrolls. */
const SETTING_ROWS_MAX = 12;
const SECRET_ROWS = 4;
const LINE_BREAK = /[\r\n]/;

export function SettingTextInput({ onValue, ...props }: Values & Pick<TextInputProps, Shared>) {
  const { hasLines, areaRef, ...handlers } = useLines(props.value, onValue);
  if (!hasLines) return <TextField {...props} {...handlers} onChange={(event) => onValue(event.currentTarget.value)} />;
  return (
    <TextAreaField
      {...props}
      ref={areaRef}
      autosize
      minRows={1}
      maxRows={SETTING_ROWS_MAX}
      onChange={(event) => onValue(event.currentTarget.value)}
    />
  );
}

interface SecretInputProps extends Omit<Values, 'value'>, Pick<PasswordInputProps, Shared> {
  /** Undefined: nothing was typed, or what was typed is saved. */
  readonly value: string | undefined;
}

export function SecretInput({ onValue, value, ...props }: SecretInputProps) {
  const { hasLines, areaRef, ...handlers } = useLines(value, onValue);
  const common = { ...props, value: value ?? '' };
  if (!hasLines)
    return <PasswordField {...common} {...handlers} onChange={(event) => onValue(event.currentTarget.value)} />;
  return (
    <TextAreaField
      {...common}
      ref={areaRef}
      rows={SECRET_ROWS}
      classNames={{ input: 'masked' }}
      // The browser may send text that it checks to a server.
      spellCheck={false}
      autoCapitalize="off"
      onChange={(event) => onValue(event.currentTarget.value)}
    />
  );
}

/** Tells when a text area must take the place of an input of one line, from which the browser removes line breaks. */
function useLines(value: string | undefined, onValue: (value: string) => void) {
  const [hadLines, setHadLines] = useState(false);
  const movesFocus = useRef(false);
  // A text area stays when the line breaks are deleted from it, so that it keeps the focus.
  const hasLines = value !== undefined && (hadLines || LINE_BREAK.test(value));
  if (hasLines !== hadLines) setHadLines(hasLines);
  const insertLines = (event: SyntheticEvent<HTMLInputElement>, given: DataTransfer) => {
    const text = given.getData('text/plain');
    // Of a text of one line, the browser removes the line break at the end.
    if (!LINE_BREAK.test(text.trim())) return;
    event.preventDefault();
    const { value: before, selectionStart, selectionEnd } = event.currentTarget;
    const [start, end] = [selectionStart ?? before.length, selectionEnd ?? before.length];
    movesFocus.current = true;
    onValue(before.slice(0, start) + text.replaceAll(/\r\n?/g, '\n') + before.slice(end));
  };
  return {
    hasLines,
    areaRef: (area: HTMLTextAreaElement | null) => {
      if (area === null || !movesFocus.current) return;
      movesFocus.current = false;
      area.focus();
      area.setSelectionRange(area.value.length, area.value.length);
    },
    onPaste: (event: ClipboardEvent<HTMLInputElement>) => insertLines(event, event.clipboardData),
    onDrop: (event: DragEvent<HTMLInputElement>) => insertLines(event, event.dataTransfer),
  };
}
